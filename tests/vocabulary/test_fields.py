"""The table of fields: each row of data/fields.csv belongs to a field of a group."""

from __future__ import annotations

from importlib import import_module

from perfatlas.declarations import questions
from perfatlas.vocabulary.fields import fields_of, rows


def test_every_row_is_that_of_a_field() -> None:
    for question in questions().values():
        fields_of(*question)
    import_module("perfatlas.verbs.compare.groups")
    known = {
        (group.__name__, name) for group in rows.declared_groups() for name in fields_of(group)
    }
    assert {*rows._texts()} <= known


def test_rows_are_sentences() -> None:
    for place, row in rows._texts().items():
        assert row.text.endswith("."), place
        assert row.text == " ".join(row.text.split()), place
