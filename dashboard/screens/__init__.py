"""One page a file: each picks a question, asks it at the desk and hands the answer to a figure.

Not called `pages`: Streamlit would take the files of a folder of that name for pages by themselves.
"""
