"""Real runs of the command that crash, hang, are killed or refuse; nothing is simulated."""
