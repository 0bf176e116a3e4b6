"""Archives as people make them, which must be taken: (kind, bytes, {path: content})."""

import gzip
import io
import tarfile
import zipfile

from archive_kinds.forge import MANIFEST, Zip, extra_field, pax, skill_tar, skill_zip, tar_file, tar_header, zstd

LONG = "references/" + "a-long-name-" * 15 + ".md"


def kinds():
    yield from zips()
    yield from tars()


class Unseekable(io.RawIOBase):
    """A pipe: zipfile then writes sizes after the contents."""

    def __init__(self):
        self.bytes = bytearray()

    def writable(self):
        return True

    def write(self, data):
        self.bytes += data
        return len(data)


def zips():
    expected = {"SKILL.md": MANIFEST.decode(), "scripts/run.py": "print()\n", "références/é.md": "é"}

    def fill(zip_file, prefix):
        for name, content in expected.items():
            zip_file.writestr(prefix + name, content)

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as zip_file:
        for name in ("demo/", "demo/scripts/"):
            directory = zipfile.ZipInfo(name)
            directory.external_attr = 0o40755 << 16 | 0x10
            zip_file.writestr(directory, b"")
        fill(zip_file, "demo/")
        zip_file.comment = b"1f3870be274f6c49b3e31a0c6728957f21c0ffee"
    yield "zip-with-directories-and-comment", buffer.getvalue(), expected
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as zip_file:
        fill(zip_file, "")
    yield "zip-flat", buffer.getvalue(), expected
    pipe = Unseekable()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as zip_file:
        fill(zip_file, "demo/")
    yield "zip-to-a-pipe", bytes(pipe.bytes), expected
    clutter = skill_zip("__MACOSX/demo/._SKILL.md", ".DS_Store", "demo/.DS_Store", "demo/__pycache__/a.pyc",
                        "demo/.git/config", "demo/evals/evals.json", "demo/node_modules/a/index.js")
    yield "zip-with-clutter", clutter, {"SKILL.md": MANIFEST.decode()}
    extra = extra_field(0x5455, b"\3\0\0\0\0\0\0\0\0") + extra_field(0x7875, b"\1\4\0\0\0\0\4\0\0\0\0")
    timed = skill_zip(("demo/a", b"x", {"local_extra": extra, "central_extra": extra_field(0x5455, b"\3\0\0\0\0")}))
    yield "zip-with-times", timed, {"SKILL.md": MANIFEST.decode(), "a": "x"}
    inner = skill_zip(("demo/zeros", bytes(40 << 20), {"method": 8}))
    bomb = Zip()
    bomb.add("skill.md", b"flat")
    bomb.add("assets/bomb.zip", inner)
    # It is a file of some 40 KB: nobody opens it.
    yield "zip-with-an-unopened-bomb", bomb.done(), {"skill.md": "flat", "assets/bomb.zip": None}


def tars():
    expected = {"SKILL.md": MANIFEST.decode(), LONG: "long", "références/é.md": "é"}
    for name, form in [("ustar", tarfile.USTAR_FORMAT), ("gnu", tarfile.GNU_FORMAT), ("pax", tarfile.PAX_FORMAT)]:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
            top = tarfile.TarInfo("./demo")
            top.type, top.mode = tarfile.DIRTYPE, 0o2755
            tar.addfile(top)
            for path, content in expected.items():
                if name == "ustar" and path == LONG:
                    continue
                facts = tarfile.TarInfo(f"./demo/{path}")
                facts.size, facts.mtime, facts.uid = len(content.encode()), 1.5 if name == "pax" else 1, 1000
                tar.addfile(facts, io.BytesIO(content.encode()))
        mine = {path: content for path, content in expected.items() if name != "ustar" or path != LONG}
        yield f"tar-{name}", buffer.getvalue(), mine
        yield f"tar-{name}-gz", gzip.compress(buffer.getvalue()), mine
        yield f"tar-{name}-zst", zstd(buffer.getvalue()), mine
    only = {"SKILL.md": MANIFEST.decode()}
    yield "tar-of-a-commit", pax(b"g", comment="1f3870be") + skill_tar(), only
    repeated = pax(path="demo/a", size="1", mtime="1.5") + tar_file("demo/a")
    yield "tar-pax-that-repeats", skill_tar(repeated), {**only, "a": "x"}
    oldest = tar_header("demo/", kind=b"\0", magic=b"") + tar_file("demo/SKILL.md", MANIFEST, kind=b"\0", magic=b"")
    yield "tar-oldest", oldest + bytes(1024), only
    yield "tar-with-clutter", skill_tar(tar_file("._demo"), tar_file("demo/._SKILL.md")), only
    yield "tar-padded", skill_tar(end=bytes(10240)), only
