"""docs/reference/json.schema.json describes what every command prints under --json. The outputs here are valid,
strictly: a field that the schema lacks is an error, and so is a field of the schema that no command printed.
"""
import functools
import json
import re
import unittest

from support import FULL, ROOT, TINY, TestCase, twobw, words

SCHEMA = json.loads((ROOT / "docs/reference/json.schema.json").read_text())["$defs"]
KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float),
         "null": type(None)}
RARE = re.compile(r"train\.stragglers|summary\.forecast|ratio")  # `plan: auto` takes seconds
BERT = {"model.family": "bert", "model.vocab": 512, "model.max_positions": 16}


def is_kind(value, kind):
    return isinstance(value, KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def find_problem(value, schema, seen, path=""):
    """Of the keywords of JSON Schema that the file uses. Adds the paths of the fields to `seen`, None if valid."""
    if not schema:  # anything
        return None
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        return find_problem(value, SCHEMA[name], seen, name)
    if "anyOf" in schema:
        problems = []
        for choice in schema["anyOf"]:
            found = set()
            problems.append(find_problem(value, choice, found, path))
            if problems[-1] is None:
                seen |= found
                return None
        return "; ".join(problems)
    kinds = schema.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if kinds and not any(is_kind(value, kind) for kind in kinds):
        return f"{path}: {value!r} is not of type {kinds}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{path}: {value!r} is none of {schema['enum']}"
    items = []
    if isinstance(value, list) and "items" in schema:
        items = [(item, schema["items"], path + "[]") for item in value]
    if isinstance(value, dict):
        missing = set(schema.get("required", [])) - set(value)
        if missing:
            return f"{path}: without {missing}"
        for name, item in value.items():
            if name in schema.get("properties", {}):
                seen.add(f"{path}.{name}")
                items.append((item, schema["properties"][name], f"{path}.{name}"))
            elif "additionalProperties" in schema:
                items.append((item, schema["additionalProperties"], path))
            else:
                return f"{path}.{name} is not in the schema"
    return next((problem for item in items if (problem := find_problem(*item[:2], seen, item[2]))), None)


def parts_of(schema):
    """The schemas inside: of choices, of items, of values; not those of fields."""
    parts = [*schema.get("anyOf", []), schema.get("items"), schema.get("additionalProperties")]
    return [part for part in parts if part]


def fields_of(schema, path):
    """Yields (path, schema) of every field that the definition names itself."""
    for part in parts_of(schema):
        yield from fields_of(part, path + "[]" * ("items" in schema))
    for name, field in schema.get("properties", {}).items():
        yield f"{path}.{name}", field
        yield from fields_of(field, f"{path}.{name}")


class JsonTest(TestCase):
    def setUp(self):
        super().setUp()
        self.seen = set()

    def check(self, name, *arguments, lines=False, exit_code=0):
        """What the command prints under --json; `name` is its definition."""
        process = twobw(*arguments, "--json", cwd=self.folder)
        self.assertEqual(process.returncode, exit_code, process.stderr)
        values = [json.loads(line) for line in process.stdout.splitlines()] if lines else [json.loads(process.stdout)]
        for value in values:
            self.assertIsNone(find_problem(value, SCHEMA[name], self.seen, name))
        return values[-1]

    def test_outputs_are_valid_and_use_every_field(self):
        (self.folder / "text.txt").write_text((ROOT / "README.md").read_text())
        (self.folder / "rows.tsv").write_text("text\tlabel\n" + "good one\t1\nbad one\t0\n" * 8)
        self.planning()
        self.data()
        self.training()
        self.models()
        named = {f"{name}{path}" for name, schema in SCHEMA.items() for path, _ in fields_of(schema, "")}
        rare = {"train.stragglers"} if FULL else {name for name in named if RARE.match(name)}
        self.assertEqual(named - self.seen, rare, "no command printed these fields")

    def planning(self):
        check = self.check
        check("config", "config")
        check("doctor", "doctor")
        check("topology", "topology")
        check("plan", "plan", "model.layers=2", "--stages=1")
        check("plan", "plan", "model.layers=2", "model.width=16384", "--margin=0.9", exit_code=1)
        check("schedule", "schedule", "2bw", "--stages=2", "--updates=2", "--list")
        check("simulate", "simulate", *words(TINY))
        check("error", "plan", "model.layers=-3", exit_code=2)

    def data(self):
        check = self.check
        check("tokenizer train", "tokenizer", "train", "text.txt", "--vocab=300", "--out=tokens")
        check("tokenizer show", "tokenizer", "show", "tokens")
        ids = check("tokenizer encode", "tokenizer", "encode", "tokens", "text.txt", "--lines", lines=True)["ids"]
        check("tokenizer encode", "tokenizer", "encode", "tokens", "text.txt", "--count")
        (self.folder / "ids.txt").write_text(" ".join(map(str, ids)))
        decoded = check("tokenizer decode", "tokenizer", "decode", "tokens", "ids.txt")
        self.assertEqual(decoded["text"], (ROOT / "README.md").read_text().splitlines(keepends=True)[-1])
        check("prepare", "prepare", "text.txt", "--tokenizer=tokens", "--out=data", "--split=blank-lines",
              "--validation=0.1")
        check("inspect", "inspect", "data-train", "--tokenizer=tokens")

    def training(self):
        check = self.check
        settings = {**TINY, "pipeline.stages": 2, "pipeline.schedule": "2bw", "pipeline.microbatches": 2,
                    "train.updates": 21, "train.eval_every": 21, "checkpoint.every_updates": 10}
        text = {"data.train": "text.txt", "data.validation": "text.txt", "model.vocab": 256}
        check("train", "train", *words({**settings, **text, "run_dir": "run"}), lines=True)
        if FULL:
            check("train", "train", *words({**TINY, "plan": "auto", "run_dir": "planned"}), lines=True)
        check("train", "train", *words({**TINY, "train.updates": 2, "pipeline.replicas": 2, "pipeline.microbatches": 2,
                                        "train.precision": "fp16", "checkpoint.every_updates": 2, "run_dir": "replicas"}), lines=True)
        check("compare", "compare", *words({**settings, "run_dir": "both"}), "--updates=2", "--seeds=2")
        check("verify", "verify", "pipeline.stages=2", "train.updates=2")
        check("profile", "profile", *words(TINY), "--sizes=1", "--rounds=1")
        check("batches", "batches", *words(TINY), "--out=batches.safetensors")
        for command in ("list", "verify"):
            check(f"checkpoint {command}", "checkpoint", command, "run")
        check("checkpoint show", "checkpoint", "show", "run")
        check("config", "checkpoint", "config", "run")
        check("checkpoint diff", "checkpoint", "diff", "run", "replicas", exit_code=1)
        (self.folder / "run/checkpoints/update-00000010/checkpoint.json").write_text("{")
        check("checkpoint list", "checkpoint", "list", "run")
        check("train", "train", "model.layers=0", lines=True, exit_code=2)

    def models(self):
        check = self.check
        check("eval", "eval", "run")
        check("export", "export", "run", "exported")
        check("generate", "generate", "run", "--prompt=a", "--tokens=2", lines=True)
        check("generate", "generate", "run", "--ids=1,2", "--tokens=2", lines=True)
        for head in ("classification", "regression"):
            check("train", "train", *words({**TINY, **BERT, "model.head": head, "train.updates": 1, "run_dir": head}),
                  lines=True)
            check("eval", "eval", head)
        (self.folder / "lines.txt").write_text("one\ntwo words\n")
        check("embed", "embed", "classification", "--texts=lines.txt", "--out=vectors.jsonl", "--tokenizer=bytes")
