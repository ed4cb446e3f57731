"""Its presence puts ``tests`` on the import path, so that tests can ``import reference``."""
