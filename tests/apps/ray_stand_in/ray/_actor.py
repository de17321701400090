"""The process of one actor: makes the object that comes first on standard input, then carries out calls, several at once."""

import concurrent.futures
import os
import pickle
import struct
import sys
import threading

answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # what a program prints is no answer
writing = threading.Lock()


def read():
    head = sys.stdin.buffer.read(8)
    return pickle.loads(sys.stdin.buffer.read(struct.unpack("<Q", head)[0])) if head else None


def answer(number, name, arguments, named):
    value = error = None
    try:
        value = getattr(actor, name)(*arguments, **named)
    except Exception as raised:
        error = raised
    text = pickle.dumps((number, value, error))
    with writing:
        answers.write(struct.pack("<Q", len(text)) + text)
        answers.flush()


made, given = read()
actor = made(*given)
with concurrent.futures.ThreadPoolExecutor(int(sys.argv[1])) as threads:
    while (call := read()) is not None:
        threads.submit(answer, *call)
