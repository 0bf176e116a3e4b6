# Asks pip, in pip's own Python, for the indexes it uses, the settings that say so, and, if called with `links`, where an
# index's links lead. Prints one JSON object. Nothing is installed or downloaded but index pages.
import ipaddress
import json
import os
import re
import socket
import sys
from configparser import RawConfigParser
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies

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


class Near(OSError):
    """An address that may be nearer than the internet, and that the user has not configured."""


def is_near(address):
    address = ipaddress.ip_address(address)
    if address.version == 6:
        in_nat64 = address in ipaddress.ip_network("64:ff9b::/96") and ipaddress.ip_address(int(address) & 0xFFFFFFFF)
        address = address.ipv4_mapped or address.sixtofour or in_nat64 or address
    return not address.is_global


def places(link):
    """Where a URL leads, as it is looked up. An http index may send its clients to the https one of the same host."""
    parts = urlsplit(link if "//" in link else "//" + link)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return {(parts.hostname, port)} | ({(parts.hostname, 443)} if port == 80 else set())


def keep_away(configured, look_up=socket.getaddrinfo):
    """No index has anything near by asked from here, by whatever name or redirect, but what the user has configured
    themselves. What is checked is what is connected to."""
    known = set().union(*map(places, configured))

    def checked(host, port, *more, **named):
        found = look_up(host, port, *more, **named)
        if (host, port) not in known and any(is_near(address[0]) for *_, address in found):
            raise Near(host)
        return found

    socket.getaddrinfo = checked


def leads_near(link):
    host, port = min(places(link), key=lambda place: place[1])
    try:
        socket.getaddrinfo(host, port)
    except Near:
        return True
    except OSError:
        # A proxy may know it.
        pass
    return False


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
        yield from hops(session, link)


def hops(session, link):
    for _ in range(10):
        yield link
        if not link.startswith(("http:", "https:")) or leads_near(link):
            return
        answer = session.head(link, allow_redirects=False)
        target = session.get_redirect_target(answer)
        if not target:
            return
        link = urljoin(answer.url, target)


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
        proxies = [options.proxy or "", *(at for scheme, at in getproxies().items() if scheme != "no")]
        hosted = [link for link in [*finder.index_urls, *finder.find_links] if link.startswith("http")]
        keep_away([*hosted, *filter(None, proxies)])
        try:
            for link in downloads(finder, session):
                said["links"].append(link)
        except Exception as error:
            said["problem"] = type(error).__name__


main()
