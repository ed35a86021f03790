"""Sixty schemas as people write them: parts of APIs, manifests, papers of trade, settings, extraction and classification."""

from __future__ import annotations

from typing import Any

S, I, N, B = {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}  # noqa: E741


def obj(required: str = "", more: Any = False, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required.split(), "additionalProperties": more}


def arr(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def text(**more: Any) -> dict[str, Any]:
    return {"type": "string", **more}


DATE, TIME, UUID, MAIL, URI = (text(format=name) for name in ("date", "date-time", "uuid", "email", "uri"))
MONEY = obj("amount currency", amount={**N, "multipleOf": 0.01, "minimum": 0}, currency=text(pattern="^[A-Z]{3}$"))
ADDRESS = obj(
    "street city zip", street=text(maxLength=80), city=S, zip=text(pattern=r"^\d{5}(-\d{4})?$"), country=text(maxLength=2)
)
TREE = {"$defs": {"node": obj("value", value=I, children=arr({"$ref": "#/$defs/node"}))}, "$ref": "#/$defs/node"}
ITEM = obj("sku quantity price", sku=text(minLength=3, maxLength=12), quantity={**I, "minimum": 1}, price=MONEY)
PET = {"oneOf": [obj("kind meows", kind={"const": "cat"}, meows=B), obj("kind barks", kind={"const": "dog"}, barks=B)]}
ERROR = obj("code message", code={**I, "minimum": 400, "maximum": 599}, message=S, details=arr(S))
PAGE = {"$defs": {"row": obj("id", id=UUID, name=S)}, **obj("items total", items=arr({"$ref": "#/$defs/row"}), total=I)}

TAKEN: dict[str, Any] = {
    # APIs
    "error": ERROR,
    "page of rows": PAGE,
    "user": obj(
        "id email", id=UUID, email=MAIL, name=text(maxLength=64), created=TIME, roles=arr({"enum": ["admin", "editor"]})
    ),
    "pet": PET,
    "pets": arr(PET, maxItems=20),
    "token": obj("access_token expires_in", access_token=S, token_type={"const": "Bearer"}, expires_in=I, scope=S),
    "webhook": obj("event data", event={"enum": ["created", "deleted"]}, data={"type": "object"}),
    "json patch": arr(obj("op path", op={"enum": ["add", "remove", "replace"]}, path=text(pattern="^/"), value={})),
    "geo point": obj("type coordinates", type={"const": "Point"}, coordinates=arr(N, minItems=2, maxItems=3)),
    "geo box": obj("bbox", bbox={"type": "array", "prefixItems": [N, N, N, N], "items": False, "minItems": 4}),
    "search": obj("query", query=text(minLength=1, maxLength=200), limit={**I, "minimum": 1, "maximum": 100}, sort=S),
    "health": obj("status", status={"enum": ["up", "down"]}, checks={"type": "object", "additionalProperties": B}),
    "nullable": obj("name nick", name=S, nick={"type": ["string", "null"]}),
    "either": obj("id", id={"anyOf": [I, UUID]}),
    "headers": {"type": "object", "patternProperties": {"^x-[a-z]+$": S}, "additionalProperties": False},
    "function call": obj("name arguments", name={"enum": ["weather", "search"]}, arguments=obj("city", city=S)),
    "tool choice": {
        "anyOf": [
            obj("tool input", tool={"const": "add"}, input=obj("a b", a=N, b=N)),
            obj("tool input", tool={"const": "greet"}, input=obj("name", name=S)),
        ]
    },
    "graph": obj("nodes edges", nodes=arr(obj("id", id=S)), edges=arr(obj("from to", to=S, **{"from": S}))),
    "ip": obj("v4", v4=text(format="ipv4"), v6=text(format="ipv6"), host=text(format="hostname")),
    "times": obj("at for", at=text(format="time"), **{"for": text(format="duration")}),
    # Manifests and settings
    "package.json": obj(
        "name version",
        name=text(pattern="^[a-z0-9._-]+$", maxLength=214),
        version=text(pattern=r"^\d+\.\d+\.\d+$"),
        license=S,
        private=B,
        scripts={"type": "object", "additionalProperties": S},
        dependencies={"type": "object", "additionalProperties": S},
    ),
    "pyproject": obj("project", project=obj("name version", name=S, version=S, dependencies=arr(S), dynamic=arr(S))),
    "compose": obj("services", services={"type": "object", "additionalProperties": obj("image", image=S, ports=arr(S))}),
    "workflow": obj(
        "on jobs", jobs={"type": "object", "additionalProperties": obj("steps", steps=arr(obj(run=S, uses=S)))}, on=S
    ),
    "eslint": obj(rules={"type": "object", "additionalProperties": {"enum": ["off", "warn", "error"]}}, extends=arr(S)),
    "tsconfig": obj(compilerOptions=obj(target={"enum": ["ES5", "ES2022"]}, strict=B, outDir=S), include=arr(S)),
    "cargo": obj("package", package=obj("name version edition", name=S, version=S, edition={"enum": ["2018", "2021"]})),
    "logging": obj("level", level={"enum": ["debug", "info"]}, handlers=arr(obj("type", type=S), minItems=1)),
    "theme": obj("name colours", name=S, colours={"type": "object", "additionalProperties": text(pattern="^#[0-9a-f]{6}$")}),
    "cron": obj("at", at=text(pattern=r"^(\*|[0-5]?\d) (\*|1?\d|2[0-3])$"), job=S),
    "feature flags": {"type": "object", "additionalProperties": {"type": ["boolean", "integer", "string"]}},
    # Trade
    "address": ADDRESS,
    "invoice": obj(
        "number date to lines", number=text(pattern="^INV-[0-9]{4,8}$"), date=DATE, to=ADDRESS, lines=arr(ITEM, minItems=1)
    ),
    "order": {"$defs": {"item": ITEM}, **obj("id items", id=S, items=arr({"$ref": "#/$defs/item"}, minItems=1, maxItems=50))},
    "payment": {
        "oneOf": [obj("card", card=text(pattern="^[0-9]{16}$")), obj("iban", iban=text(pattern="^[A-Z]{2}[0-9]{10,30}$"))]
    },
    "price": obj("value", value={**N, "exclusiveMinimum": 0, "maximum": 99999}),
    "shipment": obj("carrier", carrier={"enum": ["post", "van"]}, at=TIME, parcels=arr(obj("kg", kg=N), maxItems=9)),
    "rating": obj("stars", stars={**I, "minimum": 1, "maximum": 5}, text=text(maxLength=500)),
    "tax": obj("rate", rate={"enum": [0, 0.07, 0.19]}),
    "stock": {"type": "object", "additionalProperties": {**I, "minimum": 0}},
    # Extraction, classification, reasoning
    "person": obj("name age", name=text(maxLength=40), age={**I, "minimum": 0, "maximum": 150}),
    "people": arr(obj("name", name=S, born=DATE), minItems=1),
    "sentiment": {"enum": ["positive", "neutral", "negative"]},
    "labels": arr({"enum": ["bug", "feature", "question"]}, minItems=1, maxItems=3),
    "scores": obj("labels", labels=arr(obj("label score", label=S, score={**N, "minimum": 0, "maximum": 1}))),
    "steps": obj("steps answer", steps=arr(obj("thought", thought=S), maxItems=8), answer=S),
    "quiz": obj(
        "question options right", question=S, options=arr(S, minItems=4, maxItems=4), right={**I, "minimum": 0, "maximum": 3}
    ),
    "recipe": obj("title", title=S, minutes=I, ingredients=arr(obj("name", name=S, grams=N)), steps=arr(S)),
    "event": obj("title start", title=S, start=TIME, end=TIME, guests=arr(MAIL)),
    "tree": TREE,
    "expression": {
        "$defs": {"e": {"anyOf": [N, obj("op of", op={"enum": ["+", "*"]}, of=arr({"$ref": "#/$defs/e"}, minItems=2))]}},
        "$ref": "#/$defs/e",
    },
    "all of": {"allOf": [{"type": "object", "properties": {"a": S}, "required": ["a"]}, {"properties": {"b": I}}]},
    "any json": {},
}
"""Fifty-three that can be enforced."""

REFUSED: dict[str, tuple[Any, str]] = {
    "unique tags": (arr(S, uniqueItems=True), "uses uniqueItems"),
    "conditional": ({"if": {"properties": {"a": S}}, "then": {"required": ["b"]}}, "uses if and then"),
    "not empty": ({"not": {"const": ""}}, "uses not"),
    "contains": (arr(S, contains={"const": "x"}), "uses contains"),
    "names": ({"type": "object", "propertyNames": {"pattern": "^a"}}, "uses propertyNames"),
    "overlap": ({"oneOf": [S, text(maxLength=3)]}, "uses oneOf with alternatives that overlap"),
    "iban": (text(format="iban"), "uses the format 'iban'"),
}
"""And seven that cannot, each with what is said of it."""

BROKEN: dict[str, tuple[str, str]] = {
    "no JSON": ('{"type": "object",}', r"is not JSON \(line 1, column 19"),
    "no schema": ("[1, 2]", "must be a JSON object"),
    "too short": ('{"type": "string", "minLength": 5, "maxLength": 2}', "contradicts itself"),
    "two types": ('{"allOf": [{"type": "string"}, {"type": "integer"}]}', "contradicts itself"),
    "never": ('{"type": "object", "required": ["a"], "properties": {"a": false}}', "contradicts itself"),
    "missing": ('{"$ref": "#/$defs/nowhere"}', "refers to #/.defs/nowhere, which it does not have"),
    "remote": ('{"$ref": "https://example.com/x.json"}', "nothing is fetched"),
    "itself": ('{"$ref": "#"}', "refers to itself without end"),
    "needs itself": (
        '{"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}',
        "refers to itself without end",
    ),
    "two in a ring": (
        '{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}',
        "refers to itself without end",
    ),
    "too deep": ('{"items":' * 2000 + "{}" + "}" * 2000, "nested too deeply"),
    "too long": ('{"description": "' + "x" * 1_000_001 + '"}', "more than 1,000,000"),
    "too many": ('{"enum": [' + ",".join(f'"i{i}"' for i in range(100_000)) + "]}", "too large to follow"),
}
"""Texts that are no schemas that anything could match, with what is said."""
