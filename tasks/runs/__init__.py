"""How a run goes from stage to stage, wherever its calls are computed."""
