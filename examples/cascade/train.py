"""Train the three networks of the cascade and write them as ONNX: python train.py [NAME ...]

It takes some minutes and prints the accuracy on fresh images. The files that ship with weft were
made by this script.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from shapes import SHAPES, SIZE, draw

from weft.formats.onnx_graph import node, write_model

HERE = Path(__file__).parent
MODELS = {
    "small": {"pool": 2, "channels": (16, 16), "hidden": 24, "steps": 1500},
    "medium": {"pool": 1, "channels": (8, 16, 32), "hidden": 32, "steps": 1500},
    "large": {"pool": 1, "channels": (16, 32, 32, 32), "hidden": 48, "steps": 1000},
}


def network(pool: int, channels: tuple[int, ...], hidden: int) -> torch.nn.Sequential:
    """Average pooling, convolutions (the first one keeps the size), two dense layers."""
    parts: list[torch.nn.Module] = [torch.nn.AvgPool2d(pool)]
    before, size = 1, SIZE // pool
    for k, width in enumerate(channels):
        stride = 1 if k == 0 else 2
        parts += [torch.nn.Conv2d(before, width, 3, stride, 1), torch.nn.ReLU()]
        before, size = width, size // stride
    dense = [torch.nn.Flatten(), torch.nn.Linear(before * size * size, hidden), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts, *dense, torch.nn.Linear(hidden, len(SHAPES)))


def batch(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images between -1 and 1, and their shapes."""
    images, shape = draw(count, seed)
    return torch.from_numpy(images).float()[:, None] / 128 - 1, torch.from_numpy(shape)


def trained(pool: int, channels: tuple[int, ...], hidden: int, steps: int) -> torch.nn.Sequential:
    """Return a network after so many steps, each with new images."""
    torch.manual_seed(0)
    net = network(pool, channels, hidden)
    optimizer = torch.optim.Adam(net.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        images, shape = batch(64, seed=1000 + step)
        loss = torch.nn.functional.cross_entropy(net(images), shape)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return net


def export(net: torch.nn.Sequential, path: Path) -> None:
    """Write a network that takes bytes as floats and returns probabilities."""
    constants = {"scale": torch.tensor([1 / 128]).numpy(), "one": torch.tensor([1.0]).numpy()}
    nodes = [node("Mul", ["image", "scale"], "scaled"), node("Sub", ["scaled", "one"], "x0")]
    for k, layer in enumerate(net):
        names = [f"x{k}"]
        for key, value in layer.named_parameters():
            constants[f"{key}{k}"] = value.detach().numpy()
            names.append(f"{key}{k}")
        nodes.append(operator(layer, names, f"x{k + 1}"))
    nodes.append(node("Softmax", [f"x{len(net)}"], "probability", axis=1))
    write_model(
        path,
        nodes,
        constants=constants,
        inputs={"image": ["batch", 1, SIZE, SIZE]},
        outputs={"probability": ["batch", len(SHAPES)]},
        name=path.stem,
    )


def operator(layer: torch.nn.Module, inputs: list[str], output: str) -> bytes:
    """Return a layer as an operator of ONNX."""
    if isinstance(layer, torch.nn.Conv2d):
        stride = list(layer.stride)
        return node("Conv", inputs, output, kernel_shape=[3, 3], pads=[1] * 4, strides=stride)
    if isinstance(layer, torch.nn.AvgPool2d):
        size = [int(layer.kernel_size)] * 2
        return node("AveragePool", inputs, output, kernel_shape=size, strides=size)
    if isinstance(layer, torch.nn.Linear):
        return node("Gemm", inputs, output, transB=1)
    return node("Flatten" if isinstance(layer, torch.nn.Flatten) else "Relu", inputs, output)


if __name__ == "__main__":
    images, shape = batch(4000, seed=1)
    for name in sys.argv[1:] or MODELS:
        net = trained(**MODELS[name])
        right = float((net(images).argmax(1) == shape).float().mean())
        path = HERE / f"{name}.onnx"
        export(net, path)
        print(f"{name}: {right:.1%} right, {path.stat().st_size / 1024:.0f} kB")
