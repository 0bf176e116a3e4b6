"""Sign a file, or check its signature."""

import hashlib
import hmac
import os
import pathlib
import sys


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("sign", "check"):
        print("usage: sign.py sign|check FILE", file=sys.stderr)
        return 2
    key = os.environ["NOTE_SIGNING_KEY"].encode()
    note = pathlib.Path(sys.argv[2])
    beside = note.with_name(note.name + ".sig")
    signature = hmac.new(key, note.read_bytes(), hashlib.sha256).hexdigest()
    if sys.argv[1] == "sign":
        beside.write_text(signature + "\n")
        print(f"signed: {beside}")
        return 0
    right = beside.exists() and hmac.compare_digest(beside.read_text().strip(), signature)
    print("the signature is right" if right else "the signature is wrong")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
