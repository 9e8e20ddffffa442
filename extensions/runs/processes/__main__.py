"""The programme of `extensions.runs.processes.call`: each task may send events to the launcher."""

from functools import partial

from extensions.runs.processes import open_channel, serve

if __name__ == "__main__":
    channel = open_channel()
    serve(channel, partial(channel.say, "event"))
