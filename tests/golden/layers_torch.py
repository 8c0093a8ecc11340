"""What PyTorch computes for each layer of the trainer: writes layers_torch.txt, which tests/towers/golden_test.cpp reads.

Usage: python layers_torch.py > layers_torch.txt   (with PyTorch on a CPU)

Value i of an array with phase p is sin(0.7 * i + p), for inputs (phase 1), weights (2), biases (3) and the gradient of
the output (4), in Penstock's layouts: images [n,h,w,c], convolutions' weights [out,in,h,w]. A line is a name and values.
Then the same with one value that is odd, such as NaN: in the input (LAYER.nan.0), in the gradient of the output (.1), in a
variable (.2, .3).
"""
import torch
import torch.nn.functional as F


def wave(shape, phase):
    count = int(torch.tensor(shape).prod())
    return torch.sin(0.7 * torch.arange(count, dtype=torch.float64) + phase).to(torch.float32).reshape(shape)


def show(name, tensor):
    print(name, " ".join(f"{value:.7g}" for value in tensor.detach().flatten().tolist()))


def run(name, in_shape, function, variables=(), odd=None):
    """`function` takes the input channels first, as PyTorch likes it, and the variables. `odd`: a value, and the index in
    (input, gradient, variables) of the array whose value 5, or last value, it replaces."""
    image = len(in_shape) == 4
    arrays = [wave(in_shape, 1.0), None] + [wave(shape, 2.0 + i) for i, shape in enumerate(variables)]

    def replace(index):
        if odd is not None and odd[1] == index:
            arrays[index].view(-1)[min(5, arrays[index].numel() - 1)] = odd[0]

    for i in range(len(arrays)):
        if arrays[i] is not None:
            replace(i)
            arrays[i].requires_grad_()
    x, _, *values = arrays
    y = function(x.permute(0, 3, 1, 2) if image else x, *values)
    if y.dim() == 4:
        y = y.permute(0, 2, 3, 1)
    arrays[1] = wave(tuple(y.shape), 4.0)
    replace(1)
    y.backward(arrays[1])
    show(name + ".out", y)
    show(name + ".in_gradient", x.grad)
    for i, value in enumerate(values):
        show(f"{name}.gradient{i}", value.grad)


def max_pool_same(x):
    return F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=float("-inf")), 3, 2)


print("# made by layers_torch.py with PyTorch", torch.__version__)
LAYERS = [
    ("conv2d", (2, 5, 4, 3), lambda x, w, b: F.conv2d(x, w, b, padding=1), [(2, 3, 3, 3), (2,)]),
    ("conv2d_strided", (1, 6, 6, 2), lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), [(3, 2, 3, 3), (3,)]),
    ("dense", (3, 4), lambda x, w, b: F.linear(x, w, b), [(2, 4), (2,)]),
    ("relu", (2, 6), F.relu, []),
    # PyTorch divides alpha by the window.
    ("lrn", (1, 2, 2, 6), lambda x: F.local_response_norm(x, 5, alpha=0.3 * 5, beta=0.75, k=1.0), []),
    ("max_pool", (1, 4, 4, 2), lambda x: F.max_pool2d(x, 2), []),
    ("max_pool_same", (1, 6, 6, 1), max_pool_same, []),
    ("average_pool", (1, 5, 5, 2), lambda x: F.avg_pool2d(x, 3, 2, padding=1, count_include_pad=False), []),
    ("batch_norm", (3, 2, 2, 2), lambda x, g, b: F.batch_norm(x, None, None, g, b, training=True), [(2,), (2,)]),
]
for layer in LAYERS:
    run(*layer)
ODD = {"nan": float("nan"), "inf": float("inf"), "minus_inf": float("-inf"), "minus_zero": -0.0, "denormal": 1e-42}
for name, *layer in LAYERS:
    if name == "conv2d_strided":  # as conv2d
        continue
    for odd, value in ODD.items():
        for place in range(2 + len(layer[-1])):
            run(f"{name}.{odd}.{place}", *layer, (value, place))

logits = wave((4, 5), 1.0).requires_grad_()
labels = torch.tensor([0, 3, 4, 1])
loss = F.cross_entropy(logits, labels)
loss.backward()
show("softmax_loss.out", loss)
show("softmax_loss.in_gradient", logits.grad)

a, b, c = (wave((3, 4), phase).requires_grad_() for phase in (1.0, 2.0, 3.0))
loss = F.relu(1.5 - F.cosine_similarity(a, b) + F.cosine_similarity(a, c)).mean()
loss.backward()
show("triplet.out", loss)
show("triplet.in_gradient", a.grad)
show("triplet.gradient0", b.grad)
show("triplet.gradient1", c.grad)


def in_batch(end, value=None):
    a, b = wave((3, 4), 1.0), wave((3, 4), 2.0)
    if value is not None:
        a[1][0] = value
    for each in (a, b):
        each.requires_grad_()
    loss = F.cross_entropy(5 * F.cosine_similarity(a[:, None], b[None], dim=2), torch.arange(3))
    loss.backward()
    show(f"in_batch{end}.out", loss)
    show(f"in_batch{end}.in_gradient", a.grad)
    show(f"in_batch{end}.gradient0", b.grad)


in_batch("")
for odd, value in ODD.items():
    in_batch(f".{odd}", value)
    logits = wave((4, 5), 1.0)
    logits[1][0] = value
    logits.requires_grad_()
    loss = F.cross_entropy(logits, labels)
    loss.backward()
    show(f"softmax_loss.{odd}.out", loss)
    show(f"softmax_loss.{odd}.in_gradient", logits.grad)
    x = wave((4,), 1.0)
    x[1] = value
    x.requires_grad_()
    loss = F.binary_cross_entropy_with_logits(x, torch.tensor([0.0, 1.0, 1.0, 0.0]))
    loss.backward()
    show(f"sigmoid_loss.{odd}.out", loss)
    show(f"sigmoid_loss.{odd}.in_gradient", x.grad)
    a, b, c = (wave((3, 4), phase) for phase in (1.0, 2.0, 3.0))
    a[1][0] = value
    for each in (a, b, c):
        each.requires_grad_()
    loss = F.relu(1.5 - F.cosine_similarity(a, b) + F.cosine_similarity(a, c)).mean()
    loss.backward()
    show(f"triplet.{odd}.out", loss)
    show(f"triplet.{odd}.in_gradient", a.grad)
    show(f"triplet.{odd}.gradient0", b.grad)
    show(f"triplet.{odd}.gradient1", c.grad)

for name, make in {
    "sgd": lambda v: torch.optim.SGD([v], lr=0.1),
    "momentum": lambda v: torch.optim.SGD([v], lr=0.1, momentum=0.9),
    "nesterov": lambda v: torch.optim.SGD([v], lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda v: torch.optim.Adam([v], lr=0.1),
}.items():
    value = wave((4,), 1.0).requires_grad_()
    optimizer = make(value)
    for step in range(5):
        value.grad = wave((4,), 2.0 + step)
        optimizer.step()
    show(name, value)

cycle = torch.optim.lr_scheduler.OneCycleLR(torch.optim.SGD([wave((1,), 0.0)], lr=1), max_lr=0.05, total_steps=20)
rates = []
for _ in range(20):
    rates.append(cycle.get_last_lr()[0])
    cycle.optimizer.step()
    if len(rates) < 20:
        cycle.step()
show("one_cycle", torch.tensor(rates, dtype=torch.float64))
