# By socket and by pair, with sendto and with sendmsg: the host answers by making a file.
import os, socket, sys, time
token = sys.argv[1].encode()
for make in (lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
             lambda: socket.socket(socket.AF_UNIX, socket.SOCK_RAW),
             lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0]):
    for send in (lambda s: s.sendto(token, "socket"), lambda s: s.sendmsg([token], [], 0, "socket")):
        try:
            send(make())
        except OSError:
            pass
for _ in range(100):
    if os.path.exists("heard-" + sys.argv[1]):
        print("escaped: the host heard it")
        break
    time.sleep(0.01)
else:
    print("held: nothing was heard")
