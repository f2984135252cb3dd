def _is_cancelled(self) -> bool:
    if self._cancel_token and self._cancel_token.is_cancelled:
        return True
    if self._parent_cancel_token and self._parent_cancel_token.is_cancelled:
        return True
    return False
