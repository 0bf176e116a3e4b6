"""A streamed run, and a sandbox that stays: RINGFENCE_API_KEY=… python3 examples/sdk/stream.py"""

from ringfence import Output, Ringfence

with Ringfence() as ringfence:
    for event in ringfence.stream("for i in 1 2 3; do echo run $i; sleep 0.2; done"):
        if isinstance(event, Output):
            print(event.text, end="", flush=True)

    with ringfence.sandboxes.create() as sandbox:
        sandbox.files.write("numbers", "3\n1\n2\n")
        print("sorted:", sandbox.run("sort numbers", check=True).stdout.split())
        denied = sandbox.run("unshare -U true").denials
        print("denied:", denied[0]["remedy"])
