#!/usr/bin/env python3
"""Trains the CIFAR-10 network for some steps in PyTorch and in `penstock train`, from the same weights and on the same
images in the same order, and compares the loss of each step. Exits with 1 if one differs by more than --tolerance.

Usage: cifar10_steps.py PENSTOCK CIFAR10_TRAIN_TAR [--steps 200] [--batch 64] [--rate 0.01]
Needs PyTorch, NumPy and Pillow.
"""
import argparse
import io
import json
import struct
import subprocess
import sys
import tarfile
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

DECAY = 0.002
SHAPES = {
    "conv1/weights": (64, 3, 5, 5), "conv1/biases": (64,),
    "conv2/weights": (64, 64, 5, 5), "conv2/biases": (64,),
    "local3/weights": (384, 2304), "local3/biases": (384,),
    "local4/weights": (192, 384), "local4/biases": (192,),
    "softmax/weights": (10, 192), "softmax/biases": (10,),
}


def read_images(path, count):
    """Pixels [count,32,32,3] and labels, drawn evenly from the sorted archive in a fixed random order."""
    with tarfile.open(path) as archive:
        members = [member for member in archive.getmembers() if member.name.endswith(".jpg")]
        classes = sorted({member.name.split("/")[-2] for member in members})
        order = np.random.default_rng(1).permutation(len(members))[:count]
        pixels = np.empty((count, 32, 32, 3), np.uint8)
        labels = np.empty(count, np.int64)
        for i, at in enumerate(order):
            pixels[i] = np.asarray(Image.open(io.BytesIO(archive.extractfile(members[at]).read())).convert("RGB"))
            labels[i] = classes.index(members[at].name.split("/")[-2])
    return pixels, labels


def initial_weights():
    generator = torch.Generator().manual_seed(1)
    weights = {}
    for name, shape in SHAPES.items():
        if name.endswith("biases"):
            weights[name] = torch.full(shape, 0.0 if name.startswith(("conv1", "softmax")) else 0.1)
        else:
            deviation = 0.05 if name.startswith("conv") else 1 / 192 if name.startswith("softmax") else 0.04
            weights[name] = torch.randn(shape, generator=generator) * deviation
    return weights


def write_safetensors(path, weights):
    header, data = {}, b""
    for name, value in weights.items():
        raw = value.numpy().astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def forward(w, x):
    def half(y):
        return F.max_pool2d(F.pad(y, (0, 1, 0, 1), value=float("-inf")), 3, 2)

    def norm(y):  # PyTorch divides alpha by the window of 9
        return F.local_response_norm(y, 9, alpha=0.001, beta=0.75, k=1.0)

    y = norm(half(F.relu(F.conv2d(x, w["conv1/weights"], w["conv1/biases"], padding=2))))
    y = half(norm(F.relu(F.conv2d(y, w["conv2/weights"], w["conv2/biases"], padding=2))))
    y = y.permute(0, 2, 3, 1).flatten(1)
    y = F.relu(F.linear(y, w["local3/weights"], w["local3/biases"]))
    y = F.relu(F.linear(y, w["local4/weights"], w["local4/biases"]))
    return F.linear(y, w["softmax/weights"], w["softmax/biases"])


def train_torch(weights, pixels, labels, options):
    w = {name: value.clone().requires_grad_() for name, value in weights.items()}
    mean = torch.tensor([0.4914, 0.4822, 0.4465]).view(1, 3, 1, 1)
    deviation = torch.tensor([0.2470, 0.2435, 0.2616]).view(1, 3, 1, 1)
    losses = []
    for step in range(options.steps):
        rows = slice(step * options.batch, (step + 1) * options.batch)
        x = torch.from_numpy(pixels[rows, 4:28, 4:28]).permute(0, 3, 1, 2).float() / 255
        loss = F.cross_entropy(forward(w, (x - mean) / deviation), torch.from_numpy(labels[rows]))
        loss = loss + sum(DECAY / 2 * w[name].square().sum() for name in ("local3/weights", "local4/weights"))
        for value in w.values():
            value.grad = None
        loss.backward()
        with torch.no_grad():
            for value in w.values():
                value -= options.rate * value.grad
        losses.append(loss.item())
    return losses


def train_penstock(weights, pixels, labels, options):
    with tempfile.TemporaryDirectory() as folder:
        write_safetensors(f"{folder}/init.safetensors", weights)
        rows = np.concatenate([labels[:, None].astype(np.uint8), pixels.transpose(0, 3, 1, 2).reshape(len(labels), -1)], 1)
        rows.tofile(f"{folder}/data.bin")
        done = subprocess.run(
            [options.penstock, "train", "--model", "cifar10", "--data", f"{folder}/data.bin", "--no-shuffle", "--no-augment",
             "--init", f"{folder}/init.safetensors", "--optimizer", "sgd", "--schedule", f"constant:{options.rate}",
             "--batch", str(options.batch), "--max-steps", str(options.steps), "--quiet", "--json", "-"],
            check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)["train_loss"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("penstock")
    parser.add_argument("data")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.01)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    options = parser.parse_args()
    pixels, labels = read_images(options.data, options.steps * options.batch)
    weights = initial_weights()
    ours = train_penstock(weights, pixels, labels, options)
    theirs = train_torch(weights, pixels, labels, options)
    worst = max(abs(a - b) for a, b in zip(ours, theirs))
    print(f"{options.steps} steps: loss {ours[0]:.4f} to {ours[-1]:.4f}, PyTorch {theirs[0]:.4f} to {theirs[-1]:.4f}, "
          f"largest difference {worst:.2e}")
    return 0 if len(ours) == options.steps and worst <= options.tolerance else 1


if __name__ == "__main__":
    sys.exit(main())
