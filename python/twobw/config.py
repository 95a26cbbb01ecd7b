"""Configurations, resolved and checked by the program."""
from __future__ import annotations

import copy
import html
import json
import os
from typing import Any, Iterator, Mapping

from . import programs

Override = str | Mapping[str, Any]


class Section:
    """A section of a configuration: its keys are attributes.

    >>> import twobw
    >>> config = twobw.Config()
    >>> config.pipeline.stages = 4
    >>> config.pipeline.stages, config.pipeline.schedule
    (4, '2bw')
    """

    def __init__(self, config: Config, name: str) -> None:
        object.__setattr__(self, "_config", config)
        object.__setattr__(self, "_name", name)

    def _values(self) -> dict[str, Any]:
        values: dict[str, Any] = self._config.to_dict()[self._name]
        return values

    def __getattr__(self, key: str) -> Any:
        try:
            return self._values()[key]
        except KeyError:
            raise AttributeError(f"{self._name} has no key '{key}'") from None

    def __setattr__(self, key: str, value: Any) -> None:
        self._config.set({f"{self._name}.{key}": value})

    def __dir__(self) -> list[str]:
        return list(self._values())

    def __iter__(self) -> Iterator[str]:
        return iter(self._values())

    def __repr__(self) -> str:
        return f"Section {self._name} of {len(self._values())} keys"


class Config:
    """The configuration of a run: a file, if any, and overrides, in this order. Every key is an attribute of its
    section; docs/reference/configuration.md describes them. Setting one checks the whole configuration, and raises
    InputError, with the key as an attribute, if it does not hold.

    >>> import twobw
    >>> config = twobw.Config("model.layers=4", {"pipeline.stages": 2, "pipeline.split": [12, 10]})
    >>> config.model.layers, config.pipeline.split, config.optimizer.name
    (4, [12, 10], 'adamw')
    """

    def __init__(self, *overrides: Override, file: str | os.PathLike[str] | None = None) -> None:
        self._file = None if file is None else os.fspath(file)
        self._overrides: list[str] = []
        self._resolved: dict[str, Any] = {}
        self.set(*overrides)

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str], *overrides: Override) -> Config:
        """The configuration in a file, with overrides.

        >>> import tempfile, twobw
        >>> with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        ...     _ = file.write("model: {layers: 3}"); file.flush()
        ...     twobw.Config.from_yaml(file.name, "model.width=64").model.layers
        3
        """
        return cls(*overrides, file=path)

    def set(self, *overrides: Override) -> None:
        """Adds overrides, as "key=value" or as a mapping of keys to values. Leaves all as it was if they are refused.

        >>> import twobw
        >>> config = twobw.Config()
        >>> config.set("train.updates=50", {"train.seed": 7})
        >>> config.train.seed
        7
        """
        words = [*self._overrides, *override_words(overrides)]
        self._resolved = programs.call("config", [*self._file_words(), *words])
        self._overrides = words

    def override(self, *overrides: Override) -> Config:
        """A copy with more overrides.

        >>> import twobw
        >>> twobw.Config().override("train.updates=50").train.updates
        50
        """
        changed = copy.copy(self)
        changed.set(*overrides)
        return changed

    def words(self) -> list[str]:
        """The arguments that give a command this configuration.

        >>> import twobw
        >>> twobw.Config({"model.tied": False}).words()
        ['model.tied=false']
        """
        return [*self._file_words(), *self._overrides]

    def to_dict(self) -> dict[str, Any]:
        """All keys, section by section.

        >>> import twobw
        >>> twobw.Config("model.layers=2").to_dict()["model"]["layers"]
        2
        """
        return self._resolved

    def _file_words(self) -> list[str]:
        return [] if self._file is None else [self._file]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._resolved:
            raise AttributeError(f"the configuration has no section '{name}'")
        value = self._resolved[name]
        return Section(self, name) if isinstance(value, dict) else value

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            self.set({name: value})

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._resolved]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._resolved == other._resolved

    def __repr__(self) -> str:
        return f"Config({', '.join(map(repr, self._overrides))}{f', file={self._file!r}' if self._file else ''})"

    def _repr_html_(self) -> str:
        rows = []
        for name, value in self._resolved.items():
            values = {f"{name}.{key}": v for key, v in value.items()} if isinstance(value, dict) else {name: value}
            rows += [f"<tr><td>{html.escape(k)}</td><td>{html.escape(json.dumps(v))}</td></tr>" for k, v in values.items()]
        return f"<details><summary>{html.escape(repr(self))}</summary><table>{''.join(rows)}</table></details>"


ConfigLike = Config | str | os.PathLike[str] | None


def override_words(overrides: tuple[Override, ...]) -> list[str]:
    """Overrides as words of the command line; values of mappings become JSON, which YAML contains."""
    words: list[str] = []
    for override in overrides:
        if isinstance(override, str):
            words.append(override)
        else:
            words += [f"{key}={json.dumps(value)}" for key, value in override.items()]
    return words


def config_words(config: ConfigLike, overrides: tuple[Override, ...]) -> list[str]:
    """The arguments for a configuration, a file of one, a single override, or nothing."""
    if isinstance(config, Config):
        first = config.words()
    else:
        first = [] if config is None else [os.fspath(config)]
    return [*first, *override_words(overrides)]
