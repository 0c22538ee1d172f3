#!/usr/bin/env python3
"""Training steps of PyTorch, for `scripts/gpu-check`: the networks of `networks/`, layer by layer, with Adam.

One line of JSON for each run: model, dtype, batch, system, mode, cap_bytes, step_ms (the median), peak_bytes (the most in use by
tensors) or out_of_memory. `--device cpu` runs them without a GPU, to see that they run. With `--convolutions FILE` it times the
convolutions that lines of that file describe, and prints a line for each.
"""

import argparse
import contextlib
import json
import math
import statistics
import time

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Blocks(nn.Module):
    """Layers one after the other, each of which may be recomputed in the backward pass."""

    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.recomputes = False

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recomputes else layer(x)
        return x


def normalized(inputs, outputs, size, stride=1):
    """A convolution without bias, and batch normalization."""
    convolution = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs))


class Bottleneck(nn.Module):
    """He et al. 2016, figure 5, with the stride on the first convolution, as there."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.first = normalized(inputs, width, 1, stride)
        self.second = normalized(width, width, 3)
        self.third = normalized(width, outputs, 1)
        projects = stride > 1 or inputs != outputs
        self.shortcut = normalized(inputs, outputs, 1, stride) if projects else nn.Identity()

    def forward(self, x):
        inner = self.third(functional.relu(self.second(functional.relu(self.first(x)))))
        return functional.relu(inner + self.shortcut(x))


class ResNet(nn.Module):
    """He et al. 2016, table 1."""

    def __init__(self, counts, classes=1000):
        super().__init__()
        self.stem = nn.Sequential(normalized(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        blocks, inputs = [], 64
        for stage, count in enumerate(counts):
            width = 64 << stage
            for block in range(count):
                blocks.append(Bottleneck(inputs, width, 2 if stage > 0 and block == 0 else 1))
                inputs = 4 * width
        self.blocks = Blocks(blocks)
        self.head = nn.Linear(inputs, classes)

    def forward(self, images):
        return self.head(self.blocks(self.stem(images)).mean((2, 3)))


class Pair(nn.Sequential):
    """Two 3x3 convolutions without padding, each with a rectifier."""

    def __init__(self, inputs, outputs):
        super().__init__(nn.Conv2d(inputs, outputs, 3), nn.ReLU(), nn.Conv2d(outputs, outputs, 3), nn.ReLU())


class UNet(nn.Module):
    """Ronneberger et al. 2015, figure 1."""

    def __init__(self, width=64, classes=2):
        super().__init__()
        levels = [width << level for level in range(5)]
        self.down = nn.ModuleList(Pair(inputs, outputs) for inputs, outputs in zip([1] + levels, levels[:4]))
        self.bottom = Pair(levels[3], levels[4])
        self.dropout = nn.Dropout(0.5)
        self.upsample = nn.ModuleList(nn.ConvTranspose2d(2 * level, level, 2, 2) for level in reversed(levels[:4]))
        self.up = nn.ModuleList(Pair(2 * level, level) for level in reversed(levels[:4]))
        self.head = nn.Conv2d(width, classes, 1)
        self.recomputes = False

    def run(self, layer, x):
        return checkpoint(layer, x, use_reentrant=False) if self.recomputes else layer(x)

    def forward(self, x):
        skipped = []
        for pair in self.down:
            skipped.append(self.run(pair, x))
            x = functional.max_pool2d(skipped[-1], 2)
        x = self.dropout(self.run(self.bottom, x))
        for upsample, up in zip(self.upsample, self.up):
            x, level = upsample(x), skipped.pop()
            margin = (level.shape[2] - x.shape[2]) // 2
            middle = level[:, :, margin : margin + x.shape[2], margin : margin + x.shape[2]]
            x = self.run(up, torch.cat([middle, x], 1))
        return self.head(x).permute(0, 2, 3, 1).flatten(0, 2)


class GptBlock(nn.Module):
    """`x + attention(norm(x))`, then `x + wide(norm(x))`."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.wide_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)

    def attend(self, x):
        batch, length, width = x.shape
        parts = self.inputs(x).split(width, 2)
        queries, keys, values = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in parts
        )
        dropout = self.dropout.p if self.training else 0.0
        made = functional.scaled_dot_product_attention(queries, keys, values, dropout_p=dropout, is_causal=True)
        return self.output(made.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.dropout(self.attend(self.attention_norm(x)))
        wide = functional.gelu(self.widen(self.wide_norm(x)), approximate="tanh")
        return x + self.dropout(self.narrow(wide))


class Gpt(nn.Module):
    """GPT-2 (Radford et al. 2019, section 2.3). The embedding's weights are the output's too."""

    def __init__(self, layers, width, vocabulary, length):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        for embedding in (self.tokens, self.positions):
            nn.init.normal_(embedding.weight, std=0.02)
        self.dropout = nn.Dropout(0.1)
        self.blocks = Blocks(GptBlock(width, width // 64) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.tokens(tokens) + self.positions(positions))
        return functional.linear(self.norm(self.blocks(x)), self.tokens.weight).flatten(0, 1)


VOCABULARY = 50_257


def network(options):
    """The network, its input's shape, and how many rows of how many classes it makes."""
    batch = options.batch
    if options.model in ("resnet-50", "resnet-152"):
        counts = {"resnet-50": [3, 4, 6, 3], "resnet-152": [3, 8, 36, 3]}[options.model]
        side = options.side or 224
        return ResNet(counts), (batch, 3, side, side), (batch, 1000)
    if options.model == "unet":
        side = options.side or 572
        return UNet(), (batch, 1, side, side), (batch * (side - 184) ** 2, 2)
    layers, width = {"gpt2-small": (12, 768), "gpt2-medium": (24, 1024)}[options.model]
    length = options.length or 1024
    return Gpt(layers, width, VOCABULARY, length), (batch, length), (batch * length, VOCABULARY)


def train(options, device, dtype):
    """The median time of a step, in milliseconds."""
    model, shape, (rows, classes) = network(options)
    model = model.to(device=device, dtype=dtype).train()
    for module in model.modules():
        if hasattr(module, "recomputes"):
            module.recomputes = options.mode == "checkpoint"
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    targets = torch.arange(rows, device=device) % classes
    times = []
    for step in range(2 * options.steps):
        begin = time.perf_counter()
        if len(shape) == 2:
            sample = (torch.arange(math.prod(shape), device=device) % classes).reshape(shape)
        else:
            sample = torch.randn(shape, device=device, dtype=dtype)
        offloads = options.mode == "save-on-cpu"
        saved = torch.autograd.graph.save_on_cpu(pin_memory=device != "cpu") if offloads else contextlib.nullcontext()
        with saved:
            loss = functional.cross_entropy(model(sample), targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        assert math.isfinite(loss.item())
        if step >= options.steps:
            times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


KEY = ["pass", "dtype", "image", "weight", "stride", "padding", "dilation", "groups"]


def convolve(line, device):
    """Microseconds of a convolution, or of one of its gradients."""
    # Planes have no depth here.
    sizes = {name: line[name][-2:] for name in ["stride", "padding", "dilation"]}
    image, weight = (line[name][:2] + line[name][-2:] for name in ["image", "weight"])
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[line["dtype"]]
    image, weight = (torch.randn(shape, device=device, dtype=dtype) for shape in [image, weight])
    forward = lambda: functional.conv2d(image, weight, None, *sizes.values(), line["groups"])
    run = forward
    if line["pass"] != "forward":
        mask = [line["pass"] == "input", line["pass"] == "weight", False]
        gradient = torch.randn_like(forward())
        fixed = [None, *sizes.values(), False, [0, 0], line["groups"], mask]
        run = lambda: torch.ops.aten.convolution_backward(gradient, image, weight, *fixed)
    times = []
    for _ in range(4):
        begin = time.perf_counter()
        for _ in range(3):
            run()
        if device != "cpu":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) / 3)
    return min(times) * 1e6


def convolutions(path, device):
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    for line in lines:
        if line["kind"] == "convolution" and line["image"][2] == line["weight"][2] == 1:
            key = json.dumps([line[name] for name in KEY])
            print(json.dumps({"kind": "convolution-pytorch", "key": key, "us": convolve(line, device)}), flush=True)


def attention():
    """Attention as in the layers of GPT-2 medium, forward and backward, with and without dropout."""
    for dtype, name in [(torch.float32, "f32"), (torch.bfloat16, "bf16")]:
        for dropout in [0.0, 0.1]:
            inputs = [torch.randn(4, 16, 1024, 64, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3)]
            gradient = torch.randn_like(inputs[0])
            forward, backward = [], []
            for _ in range(20):
                events = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
                events[0].record()
                made = functional.scaled_dot_product_attention(*inputs, dropout_p=dropout, is_causal=True)
                events[1].record()
                torch.autograd.grad(made, inputs, gradient)
                events[2].record()
                torch.cuda.synchronize()
                forward.append(1e3 * events[0].elapsed_time(events[1]))
                backward.append(1e3 * events[1].elapsed_time(events[2]))
            said = {"kind": "attention", "system": f"pytorch {torch.__version__}", "dtype": name, "dropout": dropout > 0}
            print(json.dumps({**said, "forward_us": min(forward), "backward_us": min(backward)}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet-50", choices=["resnet-50", "resnet-152", "unet", "gpt2-small", "gpt2-medium"])
    parser.add_argument("--dtype", default="f32", choices=["f32", "bf16"])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--mode", default="eager", choices=["eager", "benchmark", "checkpoint", "save-on-cpu"],
                        help="`benchmark` is eager with cudnn.benchmark: convolutions by the fastest algorithm that was tried")
    parser.add_argument("--cap-bytes", type=int, help="what the process may take of the device's memory")
    parser.add_argument("--steps", type=int, default=8, help="steps that are timed, after as many that are not")
    parser.add_argument("--side", type=int, help="of the images, if not the paper's")
    parser.add_argument("--length", type=int, help="of the sequences, if not the paper's")
    parser.add_argument("--tf32", action="store_true", help="whether f32 may be multiplied with fewer bits")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--convolutions", help="a file of lines of JSON, of kind `convolution`")
    parser.add_argument("--attention", action="store_true", help="attention alone")
    options = parser.parse_args()

    torch.manual_seed(7)
    torch.backends.cuda.matmul.allow_tf32 = options.tf32
    torch.backends.cudnn.allow_tf32 = options.tf32
    torch.backends.cudnn.benchmark = options.mode == "benchmark"
    if options.attention:
        return attention()
    if options.convolutions:
        return convolutions(options.convolutions, options.device)
    is_gpu = options.device == "cuda"
    if options.cap_bytes is not None and is_gpu:
        total_bytes = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(options.cap_bytes / total_bytes, 1.0))
    said = {
        "kind": "train",
        "model": options.model,
        "dtype": options.dtype,
        "batch": options.batch,
        "system": f"pytorch {torch.__version__}",
        "mode": options.mode,
        "cap_bytes": options.cap_bytes,
    }
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[options.dtype]
    try:
        said["step_ms"] = round(train(options, options.device, dtype), 3)
        said["peak_bytes"] = torch.cuda.max_memory_allocated() if is_gpu else None
    except torch.OutOfMemoryError:
        said["out_of_memory"] = True
    print(json.dumps(said))


if __name__ == "__main__":
    main()
