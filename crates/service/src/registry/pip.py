# Asks pip, in pip's own Python, for the indexes it uses, the settings that say so, and, if called with `links`, where an
# index's links lead. Prints one JSON object. Nothing is installed or downloaded but index pages.
import ipaddress
import json
import os
import re
import sys
from configparser import RawConfigParser
from urllib.parse import urljoin, urlsplit

from pip._internal.commands import create_command
from pip._internal.configuration import get_configuration_files

KEYS = ("index-url", "extra-index-url", "find-links", "trusted-host", "no-index", "cert", "client-cert", "proxy")


def configured():
    """Which file says which of our keys, the weakest first."""
    for files in get_configuration_files().values():
        for name in files:
            parser = RawConfigParser()
            try:
                parser.read(name, encoding="utf-8")
            except Exception:
                continue
            for section in parser.sections():
                for key in parser.options(section):
                    key = key.replace("_", "-").lower()
                    if section in ("global", "install", "download") and key in KEYS:
                        yield {"file": str(name), "key": key}


def files():
    named = os.environ.get("PIP_CONFIG_FILE")
    found = [name for names in get_configuration_files().values() for name in names]
    return [str(name) for name in found] + ([named] if named else [])


def page(session, url):
    """The links on the first part of a page: a whole list of projects can have tens of megabytes."""
    response = session.get(url, headers={"Accept": "text/html"}, stream=True)
    response.raise_for_status()
    text = next(response.iter_content(1 << 17), b"").decode("utf-8", "replace")
    return [urljoin(response.url, link) for link in re.findall(r"""href=["']([^"']+)["']""", text)]


def any_project(session, index):
    """An index without pip itself: the links of the first project that it has."""
    for project in page(session, index.rstrip("/") + "/")[:1]:
        return page(session, project)
    return []


def is_near(link, indexes):
    """An address that may be nearer than the internet: no index has it asked from here, but one that is there itself."""
    try:
        address = ipaddress.ip_address(urlsplit(link).hostname or "")
    except ValueError:
        return False
    return not address.is_global and urlsplit(link).netloc not in [urlsplit(index).netloc for index in indexes]


def downloads(finder, session):
    """One link a host, and where it redirects to."""
    links = {}
    for candidate in finder.find_all_candidates("pip"):
        links.setdefault(candidate.link.netloc, candidate.link.url_without_fragment)
    if not links:
        for index in finder.index_urls:
            for link in any_project(session, index):
                links.setdefault(link.split("/")[2] if "://" in link else "", link)
    for link in list(links.values())[:8]:
        yield link
        if link.startswith("http") and not is_near(link, finder.index_urls):
            answer = session.head(link, allow_redirects=True)
            for hop in answer.history + [answer]:
                yield hop.url


def main():
    command = create_command("install")
    options, _ = command.parse_args([])
    options.timeout, options.retries = 5, 0
    said = {
        "index-url": options.index_url,
        "extra-index-url": options.extra_index_urls or [],
        "find-links": options.find_links or [],
        "trusted-host": options.trusted_hosts or [],
        "no-index": bool(options.no_index),
        "cert": options.cert,
        "client-cert": options.client_cert,
        "proxy": options.proxy,
        "configured": list(configured()),
        "files": files(),
        "links": [],
        "problem": None,
    }
    if sys.argv[1:] == ["links"]:
        ask_index(command, options, said)
    print(json.dumps(said))


def ask_index(command, options, said):
    with command.main_context():
        session = command.get_default_session(options)
        finder = command._build_package_finder(options=options, session=session)
        try:
            for link in downloads(finder, session):
                said["links"].append(link)
        except Exception as error:
            said["problem"] = type(error).__name__


main()
