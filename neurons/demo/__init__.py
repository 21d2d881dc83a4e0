"""The whole loop on one machine: local chain, miners, validator, race, export and a trained model."""
