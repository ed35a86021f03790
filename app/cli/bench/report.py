"""What a bench run tells: table, JSON and Markdown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ....errors import counted
from ...text.amounts import count_of
from .lab import BASE, BenchRun, is_own, say, show_table, write_table
from .statistics import compare, summarise


def print_report(bench: BenchRun) -> None:
    """Write every form that was asked for."""
    request = bench.request
    report = report_of(bench)
    results = report["results"]
    head, rows = table(results, bench.base)
    write_table(request.markdown, head, rows, f"{_heading(report)}\n\n")
    if request.as_json:
        print(json.dumps(report, ensure_ascii=False))
        return
    say(_heading(report))
    show_table(head, rows, left=2, spare=("forward", "draft", "nodes/tok", "FLOPs/tok", "accepted", "95%"))
    if report["comparisons"]:
        say("")
        say("Head to head, how many times as fast:")
        show_table(*_comparisons(report["comparisons"]), left=3)


def report_of(bench: BenchRun) -> dict[str, Any]:
    """What `--json` prints."""
    request, info = bench.request, bench.info
    results = summarise(bench.rows, bench.labels, bench.base, request.clock)
    return {
        "model": info["name"],
        "backend": info["backend"],
        "device": info["device"],
        "dtype": info["dtype"],
        **({"servers": bench.servers} if bench.servers else {}),
        "prompts": len(bench.prompts.items),
        "prompt_set": bench.prompts.name,
        "rounds": request.rounds,
        "max_tokens": request.max_tokens,
        "clock": request.clock,
        "results": results,
        "comparisons": comparisons(bench, results),
        "problems": [*bench.prompts.problems, *bench.problems],
        "errors": sum(1 for row in bench.rows if row.get("error")),
        "record": str(bench.record),
    }


def comparisons(bench: BenchRun, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ours against other packages' method of the same kind; auto against the best fixed method of each category."""
    clock = bench.request.clock
    peers = [spec for spec in bench.specs if "/" in spec.name]
    kinds = [(spec.label, peer.label) for peer in peers for spec in bench.specs if spec.name == peer.name.partition("/")[2]]
    out = compare(bench.rows, kinds, clock)
    names = {spec.label: spec for spec in bench.specs}
    for auto in (spec.label for spec in bench.specs if spec.name == "auto"):
        for category in dict.fromkeys(row["category"] for row in results):
            rivals = [row for row in results if row["category"] == category and row["speedup"] is not None]
            rivals = [row for row in rivals if is_own(names[row["method"]]) and names[row["method"]].name != "auto"]
            if rivals:
                best = max(rivals, key=lambda row: row["speedup"])["method"]
                out += [line for line in compare(bench.rows, [(auto, best)], clock) if line["category"] == category]
    return out


SHARES = ("draft", "forward")
"""Columns that a server tells nothing of."""


def table(results: Sequence[dict[str, Any]], base: str = BASE) -> tuple[list[str], list[list[str]]]:
    """Head and rows, by category. Of servers they say whether the passes are known; under a constraint, how many tokens a pass
    gave besides those that it left no choice about."""
    head = ["category", "method", "tok/s", "speedup", "95%", "tok/pass", "own/pass", "accepted", "nodes/tok"]
    head += ["FLOPs/tok", "thought tok/pass", "answer tok/pass", "same", "draft", "forward", "passes"]
    order = list(dict.fromkeys(row["category"] for row in results))
    rows = []
    for row in sorted(results, key=lambda row: order.index(row["category"])):
        known = row["speedup"] is not None
        rows.append(
            [
                row["category"],
                row["method"],
                f"{row['tokens_per_second']:.1f}",
                f"{row['speedup']:.2f}×" if known else "–",
                _interval(row["speedup_low"], row["speedup_high"], row["pairs"]) if known and row["method"] != base else "",
                f"{row['tokens_per_step']:.2f}" if row["tokens_per_step"] else "–",
                f"{row['own_tokens_per_step']:.2f}" if row.get("own_tokens_per_step") else "–",
                f"{row['acceptance_rate']:.0%}" if row["acceptance_rate"] else "–",
                f"{row['nodes_per_token']:.2f}" if row["nodes_per_token"] else "–",
                count_of(row["flops_per_token"]) or "–",
                *(f"{row[key]:.2f}" if row.get(key) else "–" for key in ("thought_tokens_per_step", "answer_tokens_per_step")),
                f"{row['identical']}/{row['prompts']}" if row["identical"] is not None else "–",
                f"{row['draft_share']:.0%}" if row["forward_share"] else "–",
                f"{row['forward_share']:.0%}" if row["forward_share"] else "–",
                _known(row.get("certainty", {})),
            ]
        )
    unused = list(SHARES) if any(row.get("certainty") for row in results) else ["passes"]
    unused += [] if any(row.get("thought_tokens") for row in results) else ["thought tok/pass", "answer tok/pass"]
    unused += ["FLOPs/tok"] if not any(row["flops_per_token"] for row in results) else []
    unused += ["own/pass"] if not any(row.get("own_tokens_per_step") for row in results) else []
    kept = [i for i, title in enumerate(head) if title not in unused]
    return [head[i] for i in kept], [[row[i] for i in kept] for row in rows]


def _interval(low: float, high: float, pairs: int) -> str:
    """The interval as shown; a single pair of answers tells nothing of how far another would be from it."""
    return f"{low:.2f}–{high:.2f}" if pairs > 1 else "–"


def _known(sure: Mapping[str, int]) -> str:
    """Whether passes are known: `exact`, or `exact 19, unknown 1`."""
    return "".join(sure) if len(sure) == 1 else ", ".join(f"{name} {count}" for name, count in sure.items())


def _comparisons(lines: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    head = ["category", "method", "against", "ratio", "95%", "pairs"]
    return head, [
        [
            line["category"],
            line["method"],
            line["against"],
            f"{line['ratio']:.2f}×",
            _interval(line["low"], line["high"], line["pairs"]),
            f"{line['pairs']}",
        ]
        for line in lines
    ]


def _heading(report: dict[str, Any]) -> str:
    seconds = "processor seconds" if report["clock"] == "cpu" else "wall clock"
    place = f"{report['device']} ({report['backend']}, {report['dtype']})"
    if servers := report.get("servers"):
        place = ", ".join(f"{address} ({method})" for method, address in reversed(servers.items()))
    return (
        f"{report['model']} on {place}: "
        f"{counted(report['prompts'], 'prompt')} of {report['prompt_set']}, {counted(report['rounds'], 'round')}, at most "
        f"{counted(report['max_tokens'], 'token')}, {seconds}."
    )
