"""The models that there are: found on this machine and on the Hub, what fits, who drafts for whom, downloads."""
