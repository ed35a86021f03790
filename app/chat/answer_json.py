"""The JSON object that `specchat run --json` prints for an answer."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from .entries import TELLING_STEPS, Answer

JsonFields = dict[str, Any]


def answer_json(answer: Answer) -> JsonFields:
    """Return an answer as a JSON object, with None for what was not measured. `tokens` counts EOS too."""
    totals, figures = answer.totals, answer.figures
    plain = figures.plain_seconds
    ids = answer.log.tokens.tolist()
    out: JsonFields = {
        "method": answer.method,
        "label": answer.label,
        "prompt_tokens": figures.prompt_tokens,
        "tokens": figures.tokens,
        "steps": figures.steps,
        "tokens_per_step": figures.tokens_per_step,
        "grammar_tokens": totals.grammar,
        "own_tokens_per_step": totals.own_tokens_per_step,
    }
    if constraint := answer.asked.get("constraint"):
        out |= {"valid": figures.valid, "constraint": constraint["kind"]}
    out |= {
        "draft_tokens": figures.drafted,
        "accepted_tokens": figures.accepted,
        "acceptance_rate": figures.acceptance,
        "ahead_tokens": totals.ahead,
        "wasted_tokens": totals.wasted,
        "alpha": totals.alpha if totals.drafted else None,
        "position_acceptance": totals.position_acceptance,
        "drafters": {name: asdict(drafter) for name, drafter in totals.parts.items()},
        "nodes": totals.nodes,
        "nodes_per_token": totals.nodes_per_token,
        "prefill_seconds": figures.prefill_seconds,
        "first_token_seconds": figures.first_seconds,
        "decode_seconds": totals.seconds,
        "tokens_per_second": totals.tokens_per_second or None,
        "draft_seconds": totals.draft_seconds,
        "forward_seconds": totals.forward_seconds,
        "other_seconds": totals.other_seconds,
        "draft_token_seconds": totals.draft_token_seconds or None,
        "plain_seconds": plain or None,
        "speedup": figures.speedup or None,
        "busy": figures.contended,
        "by_method": {
            name: {
                "tokens": part.tokens,
                "tokens_per_step": part.tokens_per_step,
                "alpha": part.alpha if part.drafted else None,
                "speedup": (part.speedup(plain) or None) if part.timed >= TELLING_STEPS else None,
                "tokens_per_second": part.tokens_per_second or None,
            }
            for name, part in answer.by_method.items()
        },
        "finish_reason": answer.reason or "",
        "text": answer.text,
    }
    if totals.thought.tokens:  # the two add up to the whole
        rest = figures.answer if figures.certainty else totals.answer
        out["thought"] = {"text": answer.thought, **asdict(totals.thought), "finished": not answer.thinking}
        out["answer"] = {"text": answer.text, **asdict(rest)}
    out |= {"token_ids": ids, "runs": totals.runs}
    if figures.certainty:  # a server's: what is not certain is empty, not estimated
        out |= {
            "decode_seconds": figures.decode_seconds,
            "tokens_per_second": figures.tokens_per_second or None,
            "token_ids": ids if min(ids, default=0) >= 0 else [],
            "runs": totals.runs if figures.certainty == "exact" else [],
            "certainty": figures.certainty,
            "doubt": figures.doubt,
        }
    return out
