# SPDX-License-Identifier: Apache-2.0
"""Python threads: a lock that is held, a queue with items, a condition, a timer and an executor."""

import concurrent.futures
import queue
import threading

import probe

lock = threading.Lock()
items = queue.Queue()
results = queue.Queue()
event = threading.Event()


def double():
    """Takes items and doubles them until None comes."""
    while (item := items.get()) is not None:
        results.put(2 * item)


workers = [threading.Thread(target=double) for _ in range(3)]
for worker in workers:
    worker.start()
pool = concurrent.futures.ThreadPoolExecutor(2)
going = True
while going:
    event.clear()
    lock.acquire()
    entered = []
    waiter = threading.Thread(target=lambda seen=entered: (lock.acquire(), seen.append(1),
                                                           lock.release()))
    waiter.start()
    future = pool.submit(event.wait)
    far_off = threading.Timer(100000, lambda: None)
    far_off.start()
    going = probe.cycle()
    if going:
        if probe.sabotaged("lock"):
            lock.release()
            waiter.join()
            lock.acquire()
        probe.equal("thread inside the held lock", [], entered)
        probe.equal("future", False, future.done())
        probe.equal("timer", True, far_off.is_alive())
        for i in range(100):
            items.put(i)
        found = sorted(results.get() for _ in range(100))
        probe.equal("what the workers made", [2 * i for i in range(100)], found)
    far_off.cancel()
    lock.release()
    event.set()
    waiter.join()
    probe.equal("thread that was inside", [1], entered)
    probe.equal("result of the future", True, future.result())
for _ in workers:
    items.put(None)
for worker in workers:
    worker.join()
probe.passed()
