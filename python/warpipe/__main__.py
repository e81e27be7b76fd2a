"""``python -m warpipe``: what this machine has."""

from . import doctor

print(doctor())
