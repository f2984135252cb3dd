"""Bound the cost of validating: count the work a schema makes of a value before it is done.

Alternatives that refer to the same definition twice double the work at each step, so that a small schema can hold
a program for ever. Counting merges equal steps, which keeps it cheap.
"""

from __future__ import annotations

from collections import Counter
from typing import Any
from urllib.parse import unquote

MAX_STEPS = 500_000
"""Applications of one subschema to one part of a value: about a tenth of a second of validation."""
SMALL = 2_000
"""A schema that makes fewer steps of any part of a value needs no counting."""

ONE = ("not", "if", "then", "else")
LISTS = ("allOf", "anyOf", "oneOf")
TABLES = ("dependentSchemas", "dependencies")
ITEMS = ("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems")
MEMBERS = ("additionalProperties", "propertyNames", "unevaluatedProperties")
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

Node = dict[str, Any]


class TooMuch(Exception):
    """More steps than anyone waits for."""


class SchemaCost:
    """Counts the steps of one schema. `bounded` says that no value needs to be counted."""

    def __init__(self, schema: Node) -> None:
        self._root = schema
        self._anchors: dict[str, Node] = {}
        self._nodes: dict[int, Node] = {}
        self._closures: dict[int, Counter[int]] = {}
        self._stored = 0
        self.bounded = self._is_bounded()

    def exceeds(self, value: Any) -> bool:
        """Whether validating this value takes more than `MAX_STEPS`."""
        if self.bounded:
            return False
        try:
            self._count(value)
        except TooMuch:
            return True
        return False

    def _count(self, value: Any) -> None:
        spent = 0
        waiting: list[tuple[Counter[int], Any]] = [(self._closure(self._root), value)]
        while waiting:
            nodes, part = waiting.pop()
            spent += nodes.total()
            if spent > MAX_STEPS:
                raise TooMuch
            inside = (
                part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
            )
            for key, member in inside:
                below: Counter[int] = Counter()
                for node, times in nodes.items():
                    spent += 1
                    for child in applied_schemas(self._nodes[node], key):
                        for reached, count in self._closure(child).items():
                            below[reached] += times * count
                if below:
                    waiting.append((below, member))

    def _is_bounded(self) -> bool:
        """Whether the schema is a small tree once its references are followed."""
        if not self._look(self._root):
            return True
        try:
            return self._weight(self._root, {}, set()) <= SMALL
        except RecursionError:
            return False

    def _look(self, top: Any) -> bool:
        """Note what has a name; whether anything is a reference."""
        refers = False
        waiting = [top]
        while waiting:
            match waiting.pop():
                case dict() as node:
                    for name in ("$anchor", "$dynamicAnchor", "$id"):
                        if isinstance(node.get(name), str):
                            self._anchors[node[name]] = node
                    refers = refers or any(name in node for name in REFERENCES)
                    waiting += node.values()
                case list() as nodes:
                    waiting += nodes
        return refers

    def _weight(self, node: Node, known: dict[int, int], open_nodes: set[int]) -> int:
        """The size of the tree below a node; raises RecursionError when it has no end."""
        if id(node) in known:
            return known[id(node)]
        if id(node) in open_nodes:
            raise RecursionError
        open_nodes.add(id(node))
        total = 1 + sum(self._weight(child, known, open_nodes) for child in self._in_place(node))
        total += sum(self._weight(child, known, open_nodes) for child in everything_below(node))
        open_nodes.discard(id(node))
        known[id(node)] = total
        return total

    def _closure(self, top: Node) -> Counter[int]:
        """Every node that is applied to the same part of a value as this one, and how often."""
        found = self._closures.get(id(top))
        if found is not None:
            return found
        path = [(top, self._in_place(top))]
        begun = {id(top)}
        while path:
            node, children = path[-1]
            if children and id(children[-1]) not in self._closures and id(children[-1]) not in begun:
                begun.add(id(children[-1]))
                path.append((children[-1], self._in_place(children[-1])))
                continue
            if children:
                children.pop()
                continue
            path.pop()
            self._nodes[id(node)] = node
            sums = Counter({id(node): 1})
            for child in self._in_place(node):
                sums.update(self._closures.get(id(child), ()))
            self._stored += len(sums)
            if sums.total() > MAX_STEPS or self._stored > MAX_STEPS:
                raise TooMuch
            self._closures[id(node)] = sums
        return self._closures[id(top)]

    def _in_place(self, node: Node) -> list[Node]:
        """What is applied to the same part of the value."""
        found = [node[name] for name in ONE if name in node]
        for name in LISTS:
            found += node[name] if isinstance(node.get(name), list) else []
        for name in TABLES:
            found += node[name].values() if isinstance(node.get(name), dict) else []
        found += [self._target(node[name]) for name in REFERENCES if name in node]
        schemas = [child for child in found if isinstance(child, dict)]
        return schemas * 2 if "unevaluatedProperties" in node or "unevaluatedItems" in node else schemas

    def _target(self, reference: Any) -> Node:
        """The node a reference leads to; the whole schema, when that cannot be told."""
        base, _, fragment = str(reference).partition("#")
        place: Any = self._anchors.get(base, self._root)
        if fragment and not fragment.startswith("/"):
            return self._anchors.get(fragment, self._root)
        for part in fragment.split("/")[1:]:
            step = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(place, list) and step.isdigit() and int(step) < len(place):
                place = place[int(step)]
            else:
                place = place.get(step) if isinstance(place, dict) else None
        return place if isinstance(place, dict) else self._root


def applied_schemas(node: Node, key: str | int) -> list[Node]:
    """What a node applies to the member of this name or number, or may."""
    found: list[Any] = []
    if isinstance(key, int):
        for name in ITEMS:
            entry = node.get(name)
            found += entry[key : key + 1] if isinstance(entry, list) else [entry]
    else:
        found = [node.get(name) for name in MEMBERS]
        properties, patterns = node.get("properties"), node.get("patternProperties")
        found += [properties.get(key)] if isinstance(properties, dict) else []
        found += patterns.values() if isinstance(patterns, dict) else []
    return [child for child in found if isinstance(child, dict)]


def everything_below(node: Node) -> list[Node]:
    """What a node may apply to any member."""
    found: list[Any] = [node.get(name) for name in MEMBERS]
    for name in ITEMS:
        entry = node.get(name)
        found += entry if isinstance(entry, list) else [entry]
    for name in ("properties", "patternProperties"):
        table = node.get(name)
        found += table.values() if isinstance(table, dict) else []
    return [child for child in found if isinstance(child, dict)]
