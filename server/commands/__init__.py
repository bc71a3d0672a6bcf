"""The sub-commands of `callwright`, a file each."""
