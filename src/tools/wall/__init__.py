"""The wall: what confines everything that the agent runs.

A judgement about the text of a command is not a wall. Here the kernel decides: what a command may
write, read and reach is fixed before it starts, by where the person put the conversation, and no
program can talk its way out of it.

    policy.py      `Wall`: what may be written, what is hidden, how far the network reaches
    places.py      where keys, sockets and caches are on this machine
    kinds.py       which kind of wall this machine can build: bubblewrap, Landlock, sandbox-exec
    bubblewrap.py  a wall as arguments of `bwrap`
    landlock.py    a wall as a list of rules, for machines without bubblewrap
    seatbelt.py    a wall as a profile of `sandbox-exec`, for macOS
    guardhouse.py  the walls of one conversation: built when they are needed, ended with it
    warden.py      this side of the process that starts commands inside a wall
    proxy.py       the only way from inside to the network
    leaving.py     what a command needs beyond its wall
    telling.py     what people are told of it
    inside/        what runs inside: a warden that starts commands when it is told to
"""
