"""The console command `hiveacid`."""

import argparse
import os
import sys
from collections.abc import Sequence

import airflow_hiveacid
from airflow_hiveacid.acid.errors import HiveAcidError
from airflow_hiveacid.cli import cat, clean, compact, inspect, plan

# What a shell reports for a program that SIGPIPE or SIGINT ended.
_BROKEN_PIPE, _INTERRUPTED = 141, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0, or the exit code of the error that is printed to stderr.
    """
    parser = argparse.ArgumentParser(
        prog="hiveacid", description="Look at Hive ACID tables, and look after them."
    )
    parser.add_argument("--version", action="version", version=airflow_hiveacid.__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in (inspect, cat, plan, compact, clean):
        command.add_parser(commands)
    parsed = parser.parse_args(arguments)
    try:
        status: int = parsed.run(parsed)
        sys.stdout.flush()
    except HiveAcidError as error:
        print(f"hiveacid: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        # The interpreter flushes stdout once more when it ends, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        return _INTERRUPTED
    return status


if __name__ == "__main__":
    sys.exit(main())
