"""Public jobs."""

from hiveacid.jobs import *
