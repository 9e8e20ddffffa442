"""The programme of `extensions.runs.processes.call`: each task may send events to the launcher."""

from functools import partial

from extensions.runs.processes import open_channel, serve


def main() -> None:
    """It performs tasks until it is told to leave."""
    channel = open_channel()
    serve(channel, partial(channel.say, "event"))


if __name__ == "__main__":
    main()
