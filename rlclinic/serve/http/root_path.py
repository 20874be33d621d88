"""Behind a proxy at a path of its own (`serve --root-path /rl`): requests are answered with that path or without it."""

from starlette.types import ASGIApp, Receive, Scope, Send


class RootPath:
    """Takes the proxy's path off the address, where the proxy has not done so itself."""

    def __init__(self, app: ASGIApp, root: str) -> None:
        self.app, self.root = app, root

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if self.root and (path == self.root or path.startswith(f"{self.root}/")):
            rest = path[len(self.root) :] or "/"
            scope = {**scope, "path": rest, "raw_path": rest.encode("utf-8", "replace")}
        await self.app(scope, receive, send)
