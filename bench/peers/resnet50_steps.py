#!/usr/bin/env python3
"""ResNet-50 in PyTorch, bf16 and channels last, on a batch that stays on the GPU: images a second of the whole step, as
JSON. What bench/towers_bench.cpp measures of Penstock's trainer as "resident".

Usage: resnet50_steps.py [--batch 256] [--steps 50] [--device cuda:0] [--model resnet50]
Needs PyTorch and torchvision.
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F
import torchvision


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--model", default="resnet50")
    args = parser.parse_args()
    device = torch.device(args.device)
    torch.backends.cudnn.benchmark = True
    model = getattr(torchvision.models, args.model)().to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(args.batch, 3, 224, 224, device=device).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (args.batch,), device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    def wait():
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    for _ in range(5):
        step()
    wait()
    start = time.perf_counter()
    for _ in range(args.steps):
        loss = step()
    wait()
    seconds = time.perf_counter() - start
    print(json.dumps({"torch": torch.__version__, "model": args.model, "batch": args.batch,
                      "images_per_second": args.batch * args.steps / seconds, "last_loss": loss.item()}))


if __name__ == "__main__":
    main()
