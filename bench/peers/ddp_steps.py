"""One rank of PyTorch's DistributedDataParallel on the CIFAR-10 network, whose batch stays in memory; bench/ddp.py
starts them.

    ddp_steps.py ADDRESS RANK WORLD BATCH < commands

A command is "exchanged|alone STEPS". Answers the mean seconds of one step of SGD, on one thread.
"""

import contextlib
import sys
import time

import torch
import torch.distributed as distributed
import torch.nn.functional as F
from torch import nn

DECAY = 0.002


class Cifar10(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 5, padding=2)
        self.conv2 = nn.Conv2d(64, 64, 5, padding=2)
        self.local3 = nn.Linear(2304, 384)
        self.local4 = nn.Linear(384, 192)
        self.softmax = nn.Linear(192, 10)

    def forward(self, x):
        def half(y):
            return F.max_pool2d(F.pad(y, (0, 1, 0, 1), value=float("-inf")), 3, 2)

        def norm(y):
            return F.local_response_norm(y, 9, alpha=0.001, beta=0.75, k=1.0)

        y = norm(half(F.relu(self.conv1(x))))
        y = half(norm(F.relu(self.conv2(y))))
        y = F.relu(self.local3(y.permute(0, 2, 3, 1).flatten(1)))
        return self.softmax(F.relu(self.local4(y)))


def main():
    address, rank, world, batch = sys.argv[1], *map(int, sys.argv[2:5])
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"tcp://{address}", rank=rank, world_size=world)
    network = Cifar10()
    model = nn.parallel.DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    x = torch.randn(batch, 3, 24, 24)
    labels = torch.randint(10, (batch,))

    def step(exchanged):
        with contextlib.nullcontext() if exchanged else model.no_sync():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), labels)
            loss = loss + sum(DECAY / 2 * one.weight.square().sum() for one in (network.local3, network.local4))
            loss.backward()
        optimizer.step()

    print("ready", flush=True)
    for line in sys.stdin:
        how, steps = line.split()
        step(how == "exchanged")
        start = time.perf_counter()
        for _ in range(int(steps)):
            step(how == "exchanged")
        print(f"{(time.perf_counter() - start) / int(steps):.9f}", flush=True)


main()
