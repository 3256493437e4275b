"""`python -P -m lockgate` is the `lockgate` command."""

import os
import sys

if __name__ == "__main__":
    # Without -P, Python imports from the current folder first, which may be hostile. A package of our name there, or a
    # module that `python -m` itself needs, has run before this line: so the unsafe form never works, and is no habit.
    if not sys.flags.safe_path:
        sys.stderr.write(
            "lockgate: error: `python -m` imports from the current folder first\n"
            "hint: use the command lockgate, or python -P -m lockgate\n"
        )
        sys.exit(2)

    if not __package__:
        # Started by its path, as hooks and units start the service: the package is the one that this file is a part of,
        # and what else lies in its folder comes last.
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        sys.path.insert(0, root)
        import lockgate  # noqa: F401

        sys.path.append(sys.path.pop(0))

    from lockgate.cli.start import main

    sys.exit(main())
