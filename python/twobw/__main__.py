"""python -m twobw"""
from .programs import main

main()
