"""One row per claim of the four documents, from the results of their experiments."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from weft.experiments.harness import ExperimentResults

VerdictRow = dict[str, str]
HOLDS, FAILS = "holds", "does not hold"
UNMEASURED = "not measured"


def row(claim: str, published: str, measured: str, verdict: bool | str) -> VerdictRow:
    """Return a row; a verdict of True or False becomes words."""
    text = verdict if isinstance(verdict, str) else (HOLDS if verdict else FAILS)
    return {"claim": claim, "published": published, "measured": measured, "verdict": text}


def gpu_cluster(results: ExperimentResults) -> list[VerdictRow]:
    """Return the claims on GPU clusters, as that experiment judges them."""
    words = {"confirmed": HOLDS, "not confirmed": FAILS}
    return [
        row(
            v["claim"],
            str(v.get("claimed") or ""),
            v["measured"],
            words.get(v["verdict"], v["verdict"]),
        )
        for v in results["verdicts"]
        if v["part"] == "document"
    ]


def imitation(results: ExperimentResults) -> list[VerdictRow]:
    """Return the claims of the DeepSched document."""

    def over(part: str, group: str, who: str) -> float:
        rows = results["turnaround"][part]
        return float(
            next(
                r["over_heft"]
                for r in rows
                if (r["group"], r["contender"], r["size"]) == (group, who, "all")
            )
        )

    def seconds(who: str, runtime: str) -> dict[int, float]:
        rows = results["speed"]
        return {
            r["tasks"]: r["seconds"]
            for r in rows
            if (r["contender"], r["runtime"]) == (who, runtime)
        }

    paper, chance = (over("paper", "paper's unseen", who) for who in ("paper", "random"))
    ours, ga = (over("stream", "unseen", who) for who in ("deepsched", "GA (waiting)"))
    heft, net = seconds("HEFT", "compiled"), seconds("paper", "onnxruntime")
    last = max(heft)
    return [
        row(
            "the document's network plans as well as HEFT",
            "turnaround close to HEFT's",
            f"{paper:.2f} times HEFT's on unseen problems (random devices: {chance:.2f})",
            paper <= 1.05,
        ),
        row(
            "a network can imitate HEFT's schedules",
            "turnaround close to HEFT's",
            f"deepsched, one device per task: {ours:.3f} times HEFT's",
            ours <= 1.05,
        ),
        row(
            "the network takes 0.125 s at every size",
            "0.125 s at 486, 10,000 and 84,654 tasks",
            ", ".join(f"{net[n]:.3g} s at {n:,}" for n in net),
            max(net.values()) <= 1.5 * min(net.values()),
        ),
        row(
            f"HEFT needs minutes for {last:,} tasks",
            "670 s",
            f"{heft[last]:.2f} s compiled; the network {net[last] / heft[last]:.1f} times as long",
            heft[last] >= 60,
        ),
        row(
            "the network is ahead of a genetic algorithm",
            "GA slower, its turnaround longer",
            f"GA {ga:.2f}, document's network {paper:.2f} times HEFT's",
            paper < ga,
        ),
    ]


def shift(results: ExperimentResults) -> list[VerdictRow]:
    """Return the claims of the hybrid-scheduler document."""
    rows = {r["strategy"]: r for r in results["strategies"]}
    forest, agent, optimal = (
        rows[n]["makespan"] for n in ("Hybrid ML (RF)", "RL Agent (DQN)", "Offline Optimal")
    )
    dqn = results["dqn"]
    mixed = {
        r["physics"]: r["over_optimal"]["hybrid"]
        for r in results["physics"]
        if r["tasks"] == "mixed"
    }
    hardest = max(mixed, key=lambda name: mixed[name])
    return [
        row(
            "a forest trained on GPU tasks fails on CPU tasks",
            "122.92 s",
            f"{forest:.2f} s",
            round(forest, 2) == 122.92,
        ),
        row(
            "an online DQN adapts",
            "21.12 s; its code does not learn in the test",
            f"a DQN that learns: mean {agent:.2f} s, 95th percentile {dqn['p95']:.2f} s, worst "
            f"{dqn['worst']:.2f} s of {len(dqn['makespans'])} seeds (optimum {optimal:.2f} s)",
            dqn["worst"] <= 21.12,
        ),
        row(
            "an offline and online hybrid adapts (aim: 1.05 of the optimum, mixed tasks)",
            "no such contender",
            f"1.05 kept in {sum(v <= 1.05 for v in mixed.values())} of {len(mixed)} device models; "
            f"hardest {hardest}: {mixed[hardest]:.3f}",
            max(mixed.values()) <= 1.05,
        ),
    ]


def conditional(results: ExperimentResults) -> list[VerdictRow]:
    """Return the claims of the document on conditional task graphs."""
    rows = {(r["policy"], r["waiting"]): r for r in results["summary"]}
    rules = [r for r in results["summary"] if r["group"] == "paper rule" and r["average"]]
    best_rule = min(rules, key=lambda r: r["average"])
    found = []
    exact = results["exact"]["rows"]
    digits = max(abs(r["ours"] - r["authors"]) for r in exact)
    found.append(
        row(
            "the rules' completion times (seed 1, p(c) = 0.5)",
            ", ".join(f"{r['rule']} {r['authors']:.2f} ms" for r in exact),
            ", ".join(f"{r['ours']:.2f}" for r in exact),
            digits < 0.01,
        )
    )
    agents = [r for (name, _), r in rows.items() if name == "pi4" and r["average"]]
    if agents:
        pi4 = min(agents, key=lambda r: r["average"])
        found.append(
            row(
                "PPO with an estimate of p(c) is ahead of FIFO, MRU and Depth-First",
                "at every p(c)",
                f"our pi4 {pi4['average']:.3f}, best rule ({best_rule['policy']}) "
                f"{best_rule['average']:.3f} of the published pi4",
                pi4["average"] < best_rule["average"],
            )
        )
    every = [r for r in results["summary"] if r["average"] and not r["unfinished"]]
    best = min(every, key=lambda r: r["average"])
    found.append(
        row(
            "pi4 is the best policy",
            "1.000",
            f"{best['policy']} ({best['waiting']} waiting): {best['average']:.3f} of the published "
            "pi4",
            best["average"] >= 1.0,
        )
    )
    return found


JUDGES: dict[str, tuple[str, Callable[[ExperimentResults], list[VerdictRow]]]] = {
    "gpu-cluster": ("000: workflows on GPU clusters with a DQN", gpu_cluster),
    "imitation": ("001: a network that imitates HEFT", imitation),
    "shift": ("002: offline forest and online DQN under a shift", shift),
    "conditional": ("003: conditional task graphs with PPO", conditional),
}
"""Experiment -> the document's title, and the function that judges its results."""


def verdicts(results: Mapping[str, ExperimentResults]) -> list[VerdictRow]:
    """Return all rows; experiments that could not run have one row that says why."""
    found = []
    for name, (title, judge) in JUDGES.items():
        own = results[name]
        rows = [row("all claims", "", own["error"], UNMEASURED)] if "error" in own else judge(own)
        found += [{"document": title, **each} for each in rows]
    return found
