"""One page a file: each chooses a question, asks it, and hands the answer to a figure.

The folder is not called `pages`: Streamlit would take every file in a folder of that name for a page.
"""
