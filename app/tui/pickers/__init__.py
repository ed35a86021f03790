"""Framed screens: menus, lists with a search, a text editor."""
