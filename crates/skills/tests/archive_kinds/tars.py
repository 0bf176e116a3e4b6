"""Tars that must be refused: (kind, expected code, bytes, what a careless program does with it)."""

import gzip

from archive_kinds.forge import END, MANIFEST, extension, padded, pax, skill_tar, skill_zip, tar_file, tar_header, zstd


def kinds(outside):
    yield from names(outside)
    yield from together()
    yield from entries(outside)
    yield from extended()
    yield from structure()
    yield from compressed()
    yield from others()


def names(outside):
    def one(name):
        return skill_tar(tar_file(name))

    long_outside = skill_tar(pax(path=f"{outside}/escaped".ljust(120, "x")), tar_file("escaped"))
    yield "tar-absolute-path", "absolute-path", long_outside, "escapes"
    yield "tar-parent-path", "parent-path", one("../escaped"), "escapes"
    yield "tar-parent-path-after-a-name", "parent-path", one("demo/../../escaped"), "escapes"
    yield "tar-parent-path-by-prefix", "parent-path", skill_tar(tar_file("escaped", prefix=b"..")), "escapes"
    yield "tar-drive-letter", "drive-letter", one("C:/Windows/evil.dll"), None
    yield "tar-backslash", "backslash", one("demo\\..\\..\\escaped"), None
    yield "tar-network-path", "network-path", one("//host/share/evil"), None
    yield "tar-newline-in-name", "control-character", one("demo/a\nb"), None
    yield "tar-not-utf8", "not-utf8", one(b"demo/\xff"), None
    yield "tar-empty-name", "empty-name", one(""), None
    yield "tar-dot-part", "dot-part", one("demo/./a"), None
    yield "tar-reserved-name", "reserved-name", one("demo/NUL"), None
    yield "tar-trailing-space", "trailing-dot-or-space", one("demo/run.py "), None
    yield "tar-too-deep", "too-deep", one("demo/" + "d/" * 40 + "f"), None


def together():
    def two(first, second):
        return skill_tar(tar_file(first, b"1"), tar_file(second, b"2"))

    yield "tar-duplicate-name", "duplicate-name", two("demo/run", "demo/run"), "collides"
    yield "tar-duplicate-name-with-dot", "duplicate-name", two("demo/run", "./demo/run"), "collides"
    yield "tar-case-collision", "name-collision", two("demo/Run", "demo/run"), "collides"
    yield "tar-unicode-collision", "name-collision", two("demo/caf\u00e9", "demo/cafe\u0301"), "collides"
    yield "tar-file-and-directory", "file-and-directory", two("demo/a", "demo/a/b"), None
    directory = tar_header("demo/a/", kind=b"5")
    yield "tar-directory-over-file", "file-and-directory", skill_tar(tar_file("demo/a"), directory), None
    yield "tar-file-named-as-directory", "file-and-directory", skill_tar(tar_file("demo/a/", b"")), None
    yield "tar-top-is-a-file", "file-and-directory", skill_tar(tar_file("./", b"")), None


def entries(outside):
    def link(name, to):
        # Longer than a plain header holds, if need be.
        return (pax(linkpath=to) if len(to) >= 100 else b"") + tar_header(name, kind=b"2", link=to)

    yield "tar-link-out-absolute", "link-out", skill_tar(link("demo/l", outside)), "escapes"
    yield "tar-link-out-parent", "link-out", skill_tar(link("demo/l", "../..")), "escapes"
    chain = [link("demo/x/y/up", "../.."), link("demo/x/y/l", "up/../..")]
    yield "tar-link-out-by-another", "link-out", skill_tar(*chain), "escapes"
    through = [link("demo/l", outside), tar_file("demo/l/escaped")]
    yield "tar-link-out-then-write", "link-out", skill_tar(*through), "escapes"
    yield "tar-write-through-link", "through-link", skill_tar(link("demo/l", "d"), tar_file("demo/l/y")), None
    wrapper = link("demo", "elsewhere") + tar_file("demo/SKILL.md", MANIFEST) + END
    yield "tar-wrapper-is-a-link", "file-and-directory", wrapper, None
    replaced = [link("demo/l", "other"), tar_file("demo/l")]
    yield "tar-file-over-link", "duplicate-name", skill_tar(*replaced), None
    yield "tar-link-empty", "link-out", skill_tar(link("demo/l", "")), None
    hard = tar_header("demo/h", kind=b"1", link="demo/SKILL.md")
    yield "tar-hard-link", "hard-link", skill_tar(hard), None
    yield "tar-hard-link-out", "hard-link", skill_tar(tar_header("demo/h", kind=b"1", link="../secret")), None
    for kind, code, flag in [("character-device", "device", b"3"), ("block-device", "device", b"4"),
                             ("pipe", "pipe", b"6"), ("contiguous", "unsupported-entry", b"7"),
                             ("unknown-type", "unsupported-entry", b"Z"), ("multi-volume", "unsupported-entry", b"M"),
                             ("volume-label", "unsupported-entry", b"V"), ("sparse", "sparse", b"S")]:
        yield f"tar-{kind}", code, skill_tar(tar_header("demo/a", kind=flag)), None
    yield "tar-setuid", "setuid", skill_tar(tar_file("demo/a", mode=0o4755)), None
    yield "tar-setgid", "setuid", skill_tar(tar_file("demo/a", mode=0o2755)), None
    data = tar_header("demo/d/", 4, kind=b"5") + padded(b"data")
    yield "tar-directory-with-data", "entry-with-data", skill_tar(data), None
    data = tar_header("demo/l", 4, kind=b"2", link="SKILL.md") + padded(b"data")
    yield "tar-link-with-data", "entry-with-data", skill_tar(data), None


def extended():
    def before(*parts):
        return skill_tar(*parts, tar_file("demo/a"))

    yield "tar-pax-renames", "name-override", before(pax(path="demo/b")), None
    yield "tar-pax-renames-out", "name-override", before(pax(path="../escaped")), "escapes"
    yield "tar-pax-links-elsewhere", "name-override", skill_tar(
        pax(linkpath="../.."), tar_header("demo/l", kind=b"2", link="SKILL.md")), "escapes"
    yield "tar-pax-nul-in-path", "control-character", before(pax(path="demo/é\0.sh")), None
    yield "tar-pax-size", "size-override", before(pax(size="4096")), None
    yield "tar-pax-negative-size", "bad-number", before(pax(size="-1")), None
    yield "tar-pax-huge-size", "bad-number", before(pax(size="9" * 30)), None
    yield "tar-pax-path-twice", "bad-header", before(extension(b"x", b"13 path=dem1\n13 path=dem2\n")), None
    yield "tar-pax-bad-length", "bad-header", before(extension(b"x", b"99 path=demo/b\n")), None
    yield "tar-pax-no-newline", "bad-header", before(extension(b"x", b"14 path=demo/b")), None
    yield "tar-pax-twice", "bad-header", before(pax(mtime="1"), pax(mtime="2")), None
    yield "tar-pax-before-nothing", "bad-header", skill_tar(pax(mtime="1")), None
    yield "tar-pax-sparse", "sparse", before(pax(GNU__sparse__major="1", GNU__sparse__name="../escaped")), None
    yield "tar-pax-oversize", "path-too-long", before(pax(comment="x" * (1 << 20))), None
    yield "tar-global-path", "global-header", before(pax(b"g", path="../escaped")), None
    yield "tar-global-size", "global-header", before(pax(b"g", size="0")), None
    yield "tar-global-link", "global-header", before(pax(b"g", linkpath="/etc/passwd")), None
    yield "tar-long-name-renames", "name-override", before(extension(b"L", b"demo/b\0")), None
    yield "tar-long-name-renames-out", "name-override", before(extension(b"L", b"../escaped\0")), "escapes"
    yield "tar-long-name-nul", "control-character", before(extension(b"L", b"demo/" + b"a" * 99 + b"\0.sh\0")), None
    yield "tar-long-name-too-long", "path-too-long", before(extension(b"L", b"demo/" + b"a" * 2000)), None
    yield "tar-long-name-oversize", "path-too-long", before(extension(b"L", b"a" * (1 << 20))), None
    yield "tar-long-name-lying-size", "path-too-long", before(tar_header("x", 1 << 33, b"L")), None
    long = extension(b"L", b"demo/" + b"a" * 120 + b"\0")
    yield "tar-long-name-twice", "name-override", before(long, long), None
    yield "tar-long-name-and-pax", "name-override", before(long, pax(path="demo/" + "b" * 120)), None
    yield "tar-long-name-before-nothing", "bad-header", skill_tar(long), None
    both = extension(b"K", b"../" * 40 + b"\0") + tar_header("demo/l", kind=b"2", link="SKILL.md")
    yield "tar-long-link-out", "link-out", skill_tar(both), "escapes"


def structure():
    def sized(field):
        return skill_tar(tar_header("demo/a", size_field=field), padded(b"x"))

    yield "tar-base-256-size", "bad-number", sized(b"\x80" + b"\0" * 10 + b"\1"), None
    yield "tar-negative-size", "bad-number", sized(b"\xff" * 12), None
    yield "tar-signed-size", "bad-number", sized(b"-0000000001\0"), None
    yield "tar-decimal-size", "bad-number", sized(b"00000000009\0"), None
    yield "tar-no-size", "bad-number", sized(b"\0" * 12), None
    yield "tar-bad-checksum", "bad-checksum", skill_tar(tar_header("demo/a", sum_delta=1)), None
    yield "tar-unknown-magic", "bad-header", skill_tar(tar_header("demo/a", magic=b"ustar\x0099")), None
    yield "tar-size-beyond-end", "truncated", skill_tar(tar_header("demo/a", 1 << 20)), None
    yield "tar-size-too-large", "file-too-large", skill_tar(tar_header("demo/a", 3 << 30)), None
    yield "tar-no-end", "truncated", skill_tar(end=b""), None
    yield "tar-half-an-end", "truncated", skill_tar(end=b"\0" * 512), None
    yield "tar-cut-in-header", "truncated", skill_tar(tar_file("demo/a"))[:1400], None
    yield "tar-cut-in-content", "truncated", skill_tar(tar_file("demo/a", b"x" * 900))[:-1500], None
    yield "tar-one-zero-block-within", "trailing-data", skill_tar(b"\0" * 512, tar_file("demo/a")), None
    yield "tar-two-tars", "trailing-data", skill_tar() + skill_tar(tar_file("demo/hidden")), None
    yield "tar-data-after-end", "trailing-data", skill_tar() + b"\0" * 700 + b"hidden", None
    yield "tar-zip-after-end", "trailing-data", skill_tar() + skill_zip(), None
    yield "tar-empty", "empty", END, None
    yield "tar-only-the-top", "empty", tar_header("./", kind=b"5") + END, None
    yield "tar-two-roots", "two-roots", skill_tar(tar_file("other/SKILL.md")), None
    yield "tar-no-manifest", "no-manifest", tar_file("demo/README.md") + END, None
    many = b"".join(tar_header(f"demo/{n}", 0) for n in range(20_001))
    yield "tar-too-many-entries", "too-many-entries", skill_tar(many), None


def compressed():
    good = skill_tar(tar_file("demo/a", b"content" * 100))
    packed = gzip.compress(good, mtime=0)
    zeros = bytes(40 << 20)
    bomb = skill_tar(tar_header("demo/zeros", len(zeros)), zeros)
    yield "tar-gz-bomb", "ratio", gzip.compress(bomb, mtime=0), "expands"
    yield "tar-gz-bomb-after-end", "ratio", gzip.compress(skill_tar() + zeros, mtime=0), "expands"
    header_bomb = skill_tar(*[pax(b"g", comment="x" * 60_000)] * 700)
    yield "tar-gz-bomb-of-headers", "ratio", gzip.compress(header_bomb, mtime=0), "expands"
    yield "tar-gz-two-members", "concatenated", packed + gzip.compress(END, mtime=0), None
    half = len(good) // 2
    split = gzip.compress(good[:half], mtime=0) + gzip.compress(good[half:], mtime=0)
    yield "tar-gz-split-in-members", "truncated", split, None
    yield "tar-gz-trailing-data", "trailing-data", packed + b"hidden", None
    yield "tar-gz-trailing-zip", "trailing-data", packed + skill_zip(), None
    yield "tar-gz-cut", "truncated", packed[:-12], None
    yield "tar-gz-cut-in-checksum", "truncated", packed[:-3], None
    yield "tar-gz-bad-checksum", "bad-compression", packed[:-8] + b"\0\0\0\0" + packed[-4:], None
    yield "tar-gz-damaged", "bad-compression", packed[:10] + b"\xff" * 40 + packed[50:], None
    yield "tar-gz-of-a-zip", "bad-checksum", gzip.compress(skill_zip(("demo/b", b"x" * 600, {})), mtime=0), None
    yield "tar-gz-parent-path", "parent-path", gzip.compress(skill_tar(tar_file("../escaped")), mtime=0), "escapes"
    yield "tar-zst-parent-path", "parent-path", zstd(skill_tar(tar_file("../escaped"))), None
    # 40 MiB for 1.3 KB.
    filled = skill_tar(tar_header("demo/zeros", 320 * 131072), end=b"")
    yield "tar-zst-bomb", "ratio", zstd(filled, runs=321), None
    yield "tar-zst-two-frames", "concatenated", zstd(good) + zstd(END), None
    yield "tar-zst-trailing-data", "trailing-data", zstd(good) + b"hidden", None
    yield "tar-zst-skippable-after", "trailing-data", zstd(good) + b"\x50\x2a\x4d\x18\4\0\0\0evil", None
    yield "tar-zst-cut", "truncated", zstd(good)[:-40], None
    yield "tar-zst-window", "bad-compression", zstd(good, window=0xFF), None
    yield "tar-zst-dictionary", "bad-compression", zstd(good, dictionary=7), None


def others():
    yield "text", "unknown-format", MANIFEST, None
    yield "nothing", "empty", b"", None
    yield "seven-zip", "unknown-format", b"7z\xbc\xaf\x27\x1c" + b"\0" * 600, None
    yield "xz", "unknown-format", b"\xfd7zXZ\0" + b"\0" * 600, None
    yield "short-gzip", "truncated", b"\x1f\x8b\x08", None
    yield "short-zip", "truncated", b"PK\3\4", None
