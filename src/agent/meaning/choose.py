"""Which model search by meaning uses in a home, by its configuration (`search`)."""

from __future__ import annotations

import logging
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from agent.home import ConfigError
from hermes_state import Embedder, EmbedderError

if TYPE_CHECKING:
    from agent.config.schema import SearchSettings

log = logging.getLogger(__name__)


class ChosenModel:
    """Gives the model of a home, or None while there is none; called before every search.

    What is configured is read once. The model that comes with Hermes is used as soon as it is
    there; with `meaning: on` it is fetched in the background.
    """

    def __init__(self, home: Path, settings: SearchSettings | None = None) -> None:
        """Without `settings` those of the home are read at the first call."""
        self._home = home
        self._settings = settings
        self._model: Embedder | None = None
        self._guard = threading.Lock()
        self._fetching: threading.Thread | None = None
        self._is_off = False

    def __call__(self) -> Embedder | None:
        if self._model is None and not self._is_off:
            with self._guard:
                if self._model is None and not self._is_off:
                    self._model = self._choose()
        return self._model

    @property
    def settings(self) -> SearchSettings:
        """What is configured; raises ConfigError if that cannot be read."""
        if self._settings is None:
            from agent.config import load_config

            self._settings = load_config(self._home).search
        return self._settings

    def _choose(self) -> Embedder | None:
        from .fetch import has_model, model_folder

        try:
            settings = self.settings
        except ConfigError as error:
            log.debug("Search goes by words only: %s", error)  # reported by whoever needs it
            self._is_off = True
            return None
        problem = "" if settings.meaning == "off" else missing(settings)
        if problem and (settings.meaning == "on" or settings.model):
            log.warning("Search goes by words only: %s", problem)
        if settings.meaning == "off" or problem:
            self._is_off = True
            return None
        prefixes = (settings.text_prefix, settings.question_prefix)
        if settings.model.endswith(".gguf"):
            from .file_model import FileModel

            path = Path(settings.model).expanduser()
            return FileModel(self._home / path, self._home, prefixes=prefixes)
        if settings.model:
            from .served import ServedModel

            return ServedModel(
                settings.model, settings.base_url, settings.api_key, prefixes=prefixes
            )
        if has_model(self._home):
            from .static_model import StaticModel

            return StaticModel(model_folder(self._home))
        if settings.meaning == "on" and self._fetching is None:
            self._fetching = threading.Thread(target=self._fetch, name="hermes-fetch", daemon=True)
            self._fetching.start()
        return None

    def _fetch(self) -> None:
        from .fetch import ensure_model

        try:
            ensure_model(self._home)
        except EmbedderError as error:
            log.warning("Search goes by words only: %s", error)


def missing(settings: SearchSettings) -> str:
    """What search by meaning lacks, with what to do; empty if nothing."""
    if find_spec("numpy") is None:
        from tools.extras import install_hint

        return f"the package numpy is not installed. Run: {install_hint('meaning')}"
    if settings.model and not settings.model.endswith(".gguf") and not settings.base_url:
        return (
            "search.model names a model, and search.base_url does not say where it is asked, such"
            " as http://localhost:11434/v1"
        )
    return ""
