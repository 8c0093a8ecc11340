"""One rank of the all-reduce benchmark, by torch's Gloo or by Open MPI; bench/exchange.py starts them.

    all_reduce.py torch ADDRESS RANK WORLD < commands
    mpirun -n WORLD all_reduce.py mpi FOLDER      reads commands from the file FOLDER/RANK, a FIFO

A command is "NAME CALLS FLOATS TIMES": as many sums of as many floats. torch's are all begun before the first is
waited for, as DistributedDataParallel does. Answers the mean seconds of one time, and those of CPU time.
"""

import os
import sys
import time


def serve(commands, sums):
    print("ready", flush=True)
    for line in commands:
        _, calls, floats, times = line.split()
        once = sums(int(calls), int(floats))
        once()
        cpu, start = time.process_time(), time.perf_counter()
        for _ in range(int(times)):
            once()
        took, cpu = time.perf_counter() - start, time.process_time() - cpu
        print(f"{took / int(times):.9f} {cpu / int(times):.9f}", flush=True)


def by_torch(address, rank, world):
    import torch
    import torch.distributed as distributed

    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"tcp://{address}", rank=int(rank), world_size=int(world))

    def sums(calls, floats):
        values = [torch.zeros(floats) for _ in range(calls)]

        def once():
            for work in [distributed.all_reduce(one, async_op=True) for one in values]:
                work.wait()

        return once

    serve(sys.stdin, sums)


def by_mpi(folder):
    import numpy
    from mpi4py import MPI

    ranks = MPI.COMM_WORLD

    def sums(calls, floats):
        values = [numpy.zeros(floats, numpy.float32) for _ in range(calls)]

        def once():
            for one in values:
                ranks.Allreduce(MPI.IN_PLACE, one)

        return once

    # mpirun forwards stdin to rank 0 only, and a rank that waits inside MPI for the next command spins on a
    # CPU. So each rank reads its commands from a file.
    with open(os.path.join(folder, str(ranks.Get_rank()))) as commands:
        sys.stdout = open(os.path.join(folder, f"{ranks.Get_rank()}.said"), "w")
        serve(commands, sums)


if __name__ == "__main__":
    {"torch": by_torch, "mpi": by_mpi}[sys.argv[1]](*sys.argv[2:])
