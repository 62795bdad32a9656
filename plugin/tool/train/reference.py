"""A trainer without dependencies: logistic regression on what sets two candidates apart.

Every row is a pair. Its features are the differences of the two candidates'
numbers, on a logarithmic scale, and of their agents. There is no bias, so a pair
the other way round gets the other answer.
"""
import json
import math
import os

QUESTION = "better"
STEPS = 400
RATE = 0.5
RIDGE = 0.01


def train(rows_path, out_dir):
    rows = list(_rows(rows_path))
    pairs = [(_features(state), 1.0 if expected == "first" else 0.0) for state, expected in rows]
    names = sorted({name for features, _ in pairs for name in features})
    scale = {}
    for name in names:
        square = sum(features.get(name, 0.0) ** 2 for features, _ in pairs) / len(pairs)
        scale[name] = math.sqrt(square) or 1.0
    weights = dict.fromkeys(names, 0.0)
    for _ in range(STEPS):
        slope = {name: RIDGE * weight for name, weight in weights.items()}
        for features, label in pairs:
            miss = _probability(weights, scale, features) - label
            for name, value in features.items():
                slope[name] += miss * value / scale[name] / len(pairs)
        for name in names:
            weights[name] -= RATE * slope[name]
    checkpoint = os.path.join(os.path.abspath(out_dir), "model.json")
    with open(checkpoint, "w", encoding="utf-8") as f:
        json.dump({"weights": weights, "scale": scale}, f, indent=1, sort_keys=True)
    return {"checkpoint": checkpoint, "questions": evaluate(checkpoint, rows_path)["questions"]}


def evaluate(checkpoint, rows_path):
    with open(checkpoint, encoding="utf-8") as f:
        model = json.load(f)
    n = correct = 0
    for state, expected in _rows(rows_path):
        first = _probability(model["weights"], model["scale"], _features(state)) >= 0.5
        n += 1
        correct += ("first" if first else "second") == expected
    questions = {QUESTION: {"n": n, "correct": correct, "accuracy": correct / n}} if n else {}
    return {"checkpoint": checkpoint, "questions": questions}


def _rows(path):
    with open(path, encoding="utf-8") as f:
        for line in f:
            row = json.loads(line)
            if QUESTION in row["expected"]:
                yield json.loads(row["state"]), row["expected"][QUESTION]


def _features(state):
    difference = {}
    for side, sign in (("first", 1.0), ("second", -1.0)):
        for name, value in state[side].items():
            if isinstance(value, (int, float)):
                value = math.copysign(math.log1p(abs(value)), value)
            elif name == "agent":
                name, value = "agent " + value, 1.0
            else:
                continue
            difference[name] = difference.get(name, 0.0) + sign * value
    return difference


def _probability(weights, scale, features):
    z = sum(weights.get(name, 0.0) * value / scale.get(name, 1.0) for name, value in features.items())
    return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, z))))
