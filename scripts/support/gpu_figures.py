"""The GPU figures that documents quote, from benches/results/gpu/results.jsonl.

A document has a line `<!-- gpu NAME -->` where a block of figures begins, and `<!-- /gpu -->` where it ends; NAME is one of `BLOCKS`.
`scripts/bench-results pages` writes what lies between.
"""

import collections
import json
import re

NETWORKS = {"resnet-50": "ResNet-50, batch 64", "gpt2-medium": "GPT-2 medium, batch 4", "unet": "U-Net, batch 4"}
MODES = {"autodiff": "", "memory-saving": ", `MemorySaving`"}
BLOCK = re.compile(r"(<!-- gpu ([a-z-]+) -->\n)(.*?)(<!-- /gpu -->)", re.DOTALL)


class Figures:
    """The results of all runs, the newest last."""

    def __init__(self, path):
        self.lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        self.dates = {line["commit"]: line["date"][:10] for line in self.of("machine")}

    def of(self, kind, **wanted):
        return [line for line in self.lines if line["kind"] == kind and all(line.get(key) == value for key, value in wanted.items())]

    def newest(self, kind, **wanted):
        """Those of the newest commit that has any."""
        found = self.of(kind, **wanted)
        return [line for line in found if line["commit"] == found[-1]["commit"]]

    def cost(self, what):
        return self.newest("cost", what=what)[-1]["value"]

    def place(self):
        gpu, driver, _ = self.of("machine")[-1]["gpu"].split(", ")
        versions = {line["library"]: ".".join(line["version"].split(".")[:2]) for line in self.newest("library")}
        return f"{gpu}, driver {driver}, CUDA {versions['cuda']}, cuDNN {versions['cudnn']}"

    def when(self, lines):
        """The dates and commits of these lines, the newest first."""
        commits = sorted({line["commit"] for line in lines}, key=lambda commit: (self.dates[commit], commit), reverse=True)
        return ", ".join(f"{self.dates[commit]} at {commit}" for commit in commits)


def digits(value, count=3):
    return f"{value:.0f}" if abs(value) >= 10 ** (count - 1) else f"{value:#.{count}g}".removesuffix(".")


def gigabytes(size_bytes):
    return digits(size_bytes / 1e9) if size_bytes >= 1e6 else "0"


def span(values, count=3):
    """One number, or the least and the most."""
    least, most = digits(min(values), count), digits(max(values), count)
    return least if least == most else f"{least} to {most}"


def table(head, rows, figures=True):
    rule = ["---:" if figures and column else "---" for column in range(len(head))]
    return "".join("| " + " | ".join(row) + " |\n" for row in [head, rule, *rows])


def beside_pytorch(figures):
    """Memory and time of a step with all memory, beside PyTorch's."""
    rows, all_ours, peers = [], [], []
    for model, name in NETWORKS.items():
        for dtype in ["f32", "bf16"]:
            peer = figures.newest("train", model=model, dtype=dtype, mode="eager")[-1]
            peers.append(peer)
            for mode, by in MODES.items():
                if not figures.of("train", model=model, dtype=dtype, mode=mode):
                    continue
                ours = figures.newest("train", model=model, dtype=dtype, mode=mode, percent=100)
                ours = [line for line in ours if line["fusion"] is not False]
                all_ours += ours
                rows.append([
                    f"{name}, `{dtype}`{by}", gigabytes(max(line["peak_bytes"] for line in ours)), gigabytes(peer["peak_bytes"]),
                    span([line["step_ms"] for line in ours]), digits(peer["step_ms"]),
                ])
    system = peers[0]["system"].replace("pytorch", "PyTorch")
    others = [line for line in peers if line["commit"] != all_ours[-1]["commit"]]
    apart = "".join(f", PyTorch's {NETWORKS[model].split(',')[0]} {figures.when(others)}" for model in {line["model"] for line in others})
    head = ["a step with Adam and all memory", "peak, GB", "PyTorch", "time, ms", "PyTorch"]
    where = f"\n{figures.place()}; {system}, eager. Measured\n{figures.when(all_ours)}{apart}.\n"
    return table(head, rows) + where + slow_convolution(figures) + in_less(figures)


def slow_convolution(figures):
    """How much of PyTorch's step of U-Net is one convolution."""
    slowest = max(figures.newest("convolution-pytorch"), key=lambda line: line["us"])
    key = dict(zip(["pass", "dtype", "image", "weight"], json.loads(slowest["key"])))
    ways = figures.newest("convolution", **key)[-1]["ways"]
    step_ms = figures.newest("train", model="unet", dtype="f32", mode="eager")[-1]["step_ms"]
    slow_ms, workspace_bytes = slowest["us"] / 1e3, max(way["workspace_bytes"] for way in ways)
    return (
        f"Of PyTorch's {digits(step_ms)} ms for U-Net in `f32`, {digits(slow_ms)} are one convolution, for which cuDNN's heuristic took an "
        f"algorithm\nwith {digits(workspace_bytes / 1e9, 2)} GB of workspace; the rest takes {digits(step_ms - slow_ms, 2)}.\n"
    )


def budgeted(figures):
    """Steps in a part of their need, each after the one with all memory."""
    found, whole = [], {}
    for line in figures.of("train", system="burn-overcommit", mode="autodiff"):
        if line["percent"] == 100:
            whole = line
        elif line["step"].startswith(("planned-", "half-")):
            found.append((whole, line))
    return found


def in_less(figures):
    """One sentence on steps in a part of their need."""
    lines = [line for _, line in budgeted(figures)]
    planned = [line["slowdown"] for line in lines if line["plans"]]
    others = [line["slowdown"] for line in lines if not line["plans"]]
    percents = " to ".join(f"{end([line['percent'] for line in lines])}" for end in (min, max))
    same = "with the same bits" if all(line["same_bits"] for line in lines) else "and bits differ"
    return (
        f"In {percents} % of its need a step took {span(others)} times as long without a plan ({len(others)} runs) and {span(planned)} times\n"
        f"with one ({len(planned)}), {same}.\n"
    )


def budgets(figures):
    """Steps in a part of their need."""
    rows = []
    for whole, line in budgeted(figures):
        rows.append([
            f"{NETWORKS[line['model']]}, `{line['dtype']}`", gigabytes(whole["peak_bytes"]), digits(whole["step_ms"]),
            f"{gigabytes(line['peak_bytes'])} ({line['percent']} %)", f"{line['slowdown']:.2f}", "yes" if line["plans"] else "no",
            gigabytes(line["offloaded_bytes"]), str(line["recomputed_ops"]), {True: "yes", False: "no"}[line["same_bits"]],
            figures.when([line]),
        ])
    head = ["", "need, GB", "ms", "budget, GB", "times as long", "a plan", "offloaded, GB", "ops again", "same bits", "measured"]
    return table(head, sorted(rows, key=lambda row: (row[-1], row[0]), reverse=True))


def confirmed(figures):
    """The checks, and their results."""
    parts = [line for line in figures.newest("step") if line["step"].startswith("ops-")]
    failed = [line["why"].split(";")[0] for line in parts if line["status"] != "ok"]
    checks = [figures.newest("step", step=step)[-1]["status"] for step in ["random-programs", "memcheck", "initcheck"]]
    compared, fallbacks = figures.newest("compare"), figures.of("fallback")
    cost = figures.cost
    rows = [
        ["ops against the host engine", f"{sum(line['is_good'] for line in compared)} of {len(compared)} within rounding"],
        ["the op table, with gradients, views and in-place outputs", "; another ".join([f"{len(parts) - len(failed)} of {len(parts)} parts", *failed])],
        ["a random program under all policies and budgets; `memcheck` and `initcheck` over a step of ResNet-18",
         "no error" if set(checks) == {"ok"} else ", ".join(checks)],
        ["ops left to slower kernels", str(len(fallbacks))],
        ["copies beside kernels", f"an offload takes {digits(cost('offload beside kernels, of its time alone'))} of its time alone, the "
                                  f"kernels {digits(cost('kernels beside an offload, of their time alone'))}"],
        ["an addition of large tensors", f"{digits(cost(ADDITION) / 1e3)} TB/s; the driver's copy {digits(cost(COPY) / 1e3)}"],
        ["the model of this crate's kernels", modelled(figures)],
    ]
    return f"{figures.place()}; {figures.when(parts)}:\n\n" + table(["", "result"], rows, figures=False)


ADDITION, COPY = "device memory, by this crate's addition", "device memory, by the driver's copy"


def modelled(figures):
    kernels = [line for line in figures.newest("kernel") if line["modelled_us"]]
    sums = collections.defaultdict(lambda: [0.0, 0.0])
    for line in kernels:
        sums[line["cell"]][0] += line["measured_us"] * line["count"]
        sums[line["cell"]][1] += line["modelled_us"] * line["count"]
    steps = span([measured / expected for measured, expected in sums.values()], 2)
    near = sum(1 / 1.5 <= line["measured_us"] / line["modelled_us"] <= 1.5 for line in kernels)
    return f"those measured take {steps} times the modelled time, step by step; {near} of {len(kernels)} are within a factor of 1.5"


def busy(figures):
    """For how long the GPU works in a traced step."""
    rows = []
    for model, name in list(NETWORKS.items())[:2]:
        for dtype in ["f32", "bf16"]:
            cells = [f"{name}, `{dtype}`"]
            for step in [f"trace-{model}-{dtype}", f"trace-pytorch-eager-{model}-{dtype}"]:
                found = figures.of("gpu-time", step=step)
                cells += [digits(found[-1][key]) if found else "" for key in ["busy_ms", "step_ms"]]
            rows.append(cells)
    return table(["a traced step", "GPU busy, ms", "of ms", "PyTorch: busy, ms", "of ms"], rows)


BLOCKS = {"beside-pytorch": beside_pytorch, "budgets": budgets, "confirmed": confirmed, "busy": busy}


def filled(text, figures):
    """The document with its blocks as the results give them."""
    return BLOCK.sub(lambda block: block[1] + "\n" + BLOCKS[block[2]](figures).strip("\n") + "\n\n" + block[4], text)
