"""What is done to an utterance after resampling, before it becomes int16."""
