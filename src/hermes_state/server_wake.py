"""Waking up when something was written to a store on a server: its notifications.

A notification is a hint and may be lost with its connection; those who wait also poll after their
own time-out. While the server cannot be reached, they are woken now and then.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

import psycopg

from hermes_base.ready import wait_readable

from .server import CHANNEL
from .wake import Wake

if TYPE_CHECKING:
    from .server import ServerDatabase

log = logging.getLogger(__name__)

RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0)


class ServerWake(Wake):
    """Wakes waiters when the store on a server has changed."""

    def __init__(self, database: ServerDatabase) -> None:
        super().__init__(None)
        self._database = database

    def _notice(self, ended: int) -> None:
        failures = 0
        try:
            while True:
                try:
                    connection = self._database.connect()
                    try:
                        connection.execute(f"LISTEN {CHANNEL}")
                        failures = 0
                        self._ring_all()  # what was written before we listened
                        if self._follow(connection, ended):
                            return
                    finally:
                        connection.close()
                except psycopg.Error as error:
                    log.info("Cannot listen for the server's notifications: %s", error)
                wait = RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)]
                failures += 1
                if wait_readable([ended], wait):
                    return
                self._ring_all()
        finally:
            os.close(ended)

    def _ring_all(self) -> None:
        self.ring()
        for topic in list(self._topics.values()):
            topic.ring()

    def _follow(self, connection: psycopg.Connection[Any], ended: int) -> bool:
        """Ring with every notification, until the end; False if the connection is lost."""
        while True:
            ready = wait_readable([connection.fileno(), ended])
            if ended in ready:
                return True
            connection.pgconn.consume_input()
            heard = set()
            while (notification := connection.pgconn.notifies()) is not None:
                heard.add(notification.extra.decode(errors="replace"))
            self._hear(heard)

    def _hear(self, heard: set[str]) -> None:
        """Wake those who wait for these topics; for "" those who wait for any change."""
        for name in heard:
            if not name:
                self.ring()
            elif (topic := self._topics.get(name)) is not None:
                topic.ring()
