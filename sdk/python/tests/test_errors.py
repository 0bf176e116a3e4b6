"""Every error has its class by its stable code, and says what to do next."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ringfence import ApiError, Ringfence, errors, operations
from serving import Relay, Server


def test_classes_by_code(server: Server, ringfence: Ringfence) -> None:
    with pytest.raises(errors.BeyondCeiling) as refused:
        ringfence.run("true", profile="permissive")
    assert (refused.value.status, refused.value.code) == (403, "beyond_ceiling")
    assert refused.value.hint and refused.value.request_id and refused.value.hint in str(refused.value)
    with pytest.raises(errors.BadRequest):
        ringfence.run([""])
    with pytest.raises(errors.NotFound):
        ringfence.sandboxes.attach("nothing").run("true")
    with pytest.raises(errors.Forbidden):
        list(ringfence.users.list())
    with Ringfence(server.url, "rf_wrong") as stranger, pytest.raises(errors.AuthenticationFailed):
        stranger.me()
    with ringfence.sandboxes.create(name="one") as sandbox:
        with pytest.raises(errors.NameTaken):
            ringfence.sandboxes.create(name="one")
        with pytest.raises(errors.NoSuchFile):
            sandbox.files.read("nothing")
        with pytest.raises(errors.FileDenied):
            sandbox.files.write("/etc/passwd", "x")
        with pytest.raises(errors.BeyondCeiling):
            ringfence.stream("true", profile="permissive").wait()


def test_no_id_reaches_another_route(ringfence: Ringfence) -> None:
    # `..` would be another path by the time it is sent; a slash would be another route.
    for bad in ("", ".", ".."):
        with pytest.raises(ValueError, match="can't be"):
            operations.sandboxes_get(bad)
    with pytest.raises(errors.NotFound):
        ringfence.sandboxes.attach("x/../../me").get()


def test_no_key_and_no_server(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.delenv("RINGFENCE_API_KEY", raising=False)
    with pytest.raises(errors.NoKey, match="ringfence key create"):
        Ringfence()
    for wrong in ("rf_a\nb", "rf_a b", "rf_ä", "rf_\0"):
        with pytest.raises(ValueError, match="characters that no key has") as refused:
            Ringfence(server.url, wrong)
        assert wrong not in str(refused.value)
    with Ringfence(server.url, f" {server.admin}\n") as padded:
        assert padded.me().role == "admin"
    with pytest.raises(ValueError, match="no URL"):
        Ringfence("localhost:7070", "rf_x")
    with Relay(server.port, lambda *_: None) as relay:
        closed = relay.url
    with Ringfence(closed, "rf_x", retries=1) as ringfence, pytest.raises(errors.ConnectionFailed, match="ringfence serve"):
        ringfence.me()
    assert "rf_x" not in repr(ringfence._http.settings)


def test_an_answer_that_never_comes(server: Server, key: str) -> None:
    done = threading.Event()

    def hold(connection: int, answered: bytes) -> int | None:
        done.wait()
        return 0

    with Relay(server.port, hold) as relay, Ringfence(relay.url, key, timeout=0.2) as ringfence:
        with pytest.raises(errors.RequestTimeout):
            ringfence.me()
        done.set()


def test_an_answer_of_something_else() -> None:
    page = errors.error_of(502, b"<html>bad gateway</html>")
    assert isinstance(page, errors.ServerFailed) and "bad gateway" in str(page)
    with pytest.raises(errors.AnswerNotUnderstood):
        operations.people_me().read(b'{"user": 1}')
    with pytest.raises(errors.AnswerNotUnderstood):
        operations.people_me().read(b"<html>")
    assert isinstance(errors.error_of(429, b"", "7"), errors.TooMany)
    unknown = errors.error_of(418, b'{"error":{"code":"new_one","message":"m"}}')
    assert isinstance(unknown, ApiError) and unknown.code == "new_one"


def test_what_is_too_much_is_asked_again(tmp_path: Path) -> None:
    quotas = "[roles.operator.quotas]\ncommands = 1\nsandboxes = 1\n"
    with Server(tmp_path, "--socket", str(tmp_path / "socket"), config=quotas) as server:
        key = server.key("ada")
        # By its unix socket too.
        with Ringfence(f"unix:{tmp_path}/socket", key) as ringfence, ringfence.sandboxes.create() as sandbox:
            with sandbox.stream("echo on; while [ ! -e go ]; do sleep 0.01; done") as stream:
                assert next(stream.text()) == "on\n"
                with Ringfence(server.url, key, retries=0) as hasty, pytest.raises(errors.TooMany) as told:
                    hasty.run("true")
                assert told.value.retry_after == 1
                # A quota is for the caller to look at: nothing is waited for.
                with pytest.raises(errors.QuotaReached):
                    ringfence.sandboxes.create()
                with Ringfence(server.url, key, retries=1000) as patient, ThreadPoolExecutor(1) as thread:
                    waiting = thread.submit(patient.run, "echo done", timeout_ms=600_000)
                    sandbox.files.write("go", "")
                    stream.wait()
                    assert waiting.result().stdout == "done\n"


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with Recorder() as recorder:
        yield recorder


class Recorder:
    """Something on loopback that is not the server, and writes down what it is asked."""

    def __enter__(self) -> Recorder:
        self.asked: list[str] = []
        self.status, self.body = 302, b""
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                recorder.asked.append(f"{self.path} {self.headers}")
                self.send_response(recorder.status)
                self.send_header("Location", f"{recorder.url}/elsewhere")
                self.send_header("Content-Length", str(len(recorder.body)))
                self.end_headers()
                self.wfile.write(recorder.body)

            do_POST = do_GET

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_the_key_goes_to_the_server_only(server: Server, key: str, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, recorder.url)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with Ringfence(server.url, key) as ringfence:
        assert ringfence.me().role == "operator"
    assert recorder.asked == []
    # The twin: what is elsewhere goes through the proxy that the environment names.
    with Ringfence("http://server.example", key) as ringfence, pytest.raises(errors.BadRequest):
        ringfence.me()
    assert len(recorder.asked) == 1
    # A redirect is an error, and not followed.
    recorder.asked.clear()
    with Ringfence(recorder.url, key) as ringfence, pytest.raises(errors.BadRequest, match="302"):
        ringfence.me()
    assert len(recorder.asked) == 1


def test_an_action_that_waits_must_be_one(recorder: Recorder) -> None:
    recorder.status = 202
    with Ringfence(recorder.url, "rf_x") as ringfence:
        for body in (b"<html>", b"[]", b'{"id": "a1"}'):
            recorder.body = body
            with pytest.raises(errors.AnswerNotUnderstood):
                ringfence.run("true")
            with pytest.raises(errors.AnswerNotUnderstood):
                ringfence.stream("true").wait()
