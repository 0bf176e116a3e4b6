"""List the primes up to a number, and keep them beside the skill."""

import json
import pathlib
import sys

CACHE = pathlib.Path(__file__).resolve().parent.parent / "cache" / "primes.json"


def primes(limit):
    sieve = bytearray([1]) * (limit + 1)
    sieve[0:2] = b"\0\0"[: limit + 1]
    for number in range(2, int(limit**0.5) + 1):
        if sieve[number]:
            sieve[number * number :: number] = bytes(len(range(number * number, limit + 1, number)))
    return [number for number in range(limit + 1) if sieve[number]]


def main():
    limit = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    found = primes(limit)
    try:
        CACHE.parent.mkdir(exist_ok=True)
        CACHE.write_text(json.dumps({"limit": limit, "primes": found}))
    except OSError as error:
        print(f"cannot keep the primes: {error}", file=sys.stderr)
        return 1
    print(f"{len(found)} primes up to {limit}, kept in {CACHE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
