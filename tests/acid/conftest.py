from hypothesis import settings

# A busy machine must not turn a property into a race against the clock.
settings.register_profile("hiveacid", deadline=None)
settings.load_profile("hiveacid")
