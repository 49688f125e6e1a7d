"""A library that was built for another processor: who loads it dies of an illegal instruction."""

import os
import signal

os.kill(os.getpid(), signal.SIGILL)
