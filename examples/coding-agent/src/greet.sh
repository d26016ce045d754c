#!/bin/sh
echo "Helo, ${1:-world}"
