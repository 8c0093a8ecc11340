"""ResNet-18 by DistributedDataParallel: the peer of examples/libtorch, for tools/check_libtorch.sh.

    ddp_resnet18.py make FOLDER DTYPE ROWS     writes images.npy, labels.npy and init.f64
    ddp_resnet18.py run FOLDER DTYPE RANKS STEPS BATCH   prints each step's mean loss

DTYPE is f32 or f64. Ranks are processes on this machine that meet by gloo, each with one thread for its operators.
Needs PyTorch alone.
"""
import os
import socket
import sys

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.functional import cross_entropy


def convolution(inputs, outputs, kernel, stride):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = convolution(inputs, outputs, 3, stride)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = convolution(outputs, outputs, 3, 1)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x):
        body = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(body + self.downsample(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = convolution(3, 64, 7, 2)
        self.bn1 = nn.BatchNorm2d(64)
        layers, inputs = [], 64
        for outputs in (64, 128, 256, 512):
            layers.append(nn.Sequential(Block(inputs, outputs, 1 if outputs == 64 else 2), Block(outputs, outputs, 1)))
            inputs = outputs
        self.layer1, self.layer2, self.layer3, self.layer4 = layers
        self.fc = nn.Linear(512, 10)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.nn.functional.adaptive_avg_pool2d(x, (1, 1)).flatten(1))


def parameters_from(folder, model):
    values = np.fromfile(os.path.join(folder, "init.f64"), np.float64)
    at = 0
    with torch.no_grad():
        for parameter in model.parameters():
            count = parameter.numel()
            parameter.copy_(torch.from_numpy(values[at:at + count].reshape(parameter.shape)))
            at += count
    assert at == len(values)


def make(folder, dtype, rows):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 10, rows)
    images = rng.normal(0, 1, (rows, 3, 32, 32)) + labels[:, None, None, None] / 10
    np.save(os.path.join(folder, "images.npy"), images.astype(np.float32 if dtype == "f32" else np.float64))
    np.save(os.path.join(folder, "labels.npy"), labels)
    torch.manual_seed(7)
    # Rounded to f32, so that both dtypes can begin with them.
    values = torch.cat([p.detach().flatten() for p in ResNet().parameters()]).double()
    values.numpy().tofile(os.path.join(folder, "init.f64"))


def rank_main(rank, port, folder, dtype, ranks, steps, batch):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    model = ResNet().to(torch.float32 if dtype == "f32" else torch.float64)
    parameters_from(folder, model)
    model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, 0.9)
    images = torch.from_numpy(np.load(os.path.join(folder, "images.npy")))
    labels = torch.from_numpy(np.load(os.path.join(folder, "labels.npy")))
    for step in range(steps):
        at = (step * ranks + rank) * batch
        optimizer.zero_grad()
        loss = cross_entropy(model(images[at:at + batch]), labels[at:at + batch])
        loss.backward()
        optimizer.step()
        total = loss.detach().double() / ranks
        dist.all_reduce(total)
        if rank == 0:
            print(f"step {step} loss {total.item():.17g}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            chosen = free.getsockname()[1]
        count = int(sys.argv[4])
        mp.spawn(rank_main, (chosen, sys.argv[2], sys.argv[3], count, int(sys.argv[5]), int(sys.argv[6])), count)
